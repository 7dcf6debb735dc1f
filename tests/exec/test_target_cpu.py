"""A step may be compiled for another processor, and is refused where it cannot run."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.process.cpu import is_checked

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")


def _arguments(target: str) -> dict[str, Any]:
    torch.manual_seed(0)
    example = (torch.randn(4, 3), torch.randn(4, 1))
    model, optimizer = nn.Linear(3, 1), dmc.optim.SGD(lr=0.1)
    return {
        "model": model,
        "loss": nn.functional.mse_loss,
        "optimizer": optimizer,
        "example": example,
        "target": target,
    }


def test_this_machine_runs_what_it_compiles_for_itself() -> None:
    step = dmc.compile(**_arguments("cpu"))
    requires = step.snapshot().requires
    assert requires[0] == "x86_64"
    assert "sse2" in requires
    assert float(step(*_arguments("cpu")["example"])) > 0


def test_an_older_processor_asks_for_less() -> None:
    arguments = _arguments("cpu:x86-64-v3")
    step = dmc.compile(**arguments)
    requires = step.snapshot().requires
    assert {"avx2", "fma"} < set(requires)
    assert not any("avx512" in feature for feature in requires)
    model, (x, y) = arguments["model"], arguments["example"]
    expected = float(nn.functional.mse_loss(model(x), y).detach())
    assert float(step(x, y)) == pytest.approx(expected, rel=1e-5)


def test_another_processor_is_refused_before_anything_runs(tmp_path: Path) -> None:
    # No processor since has what AMD's had from 2011 to 2015.
    artifact = dmc.compile_artifact(**_arguments("cpu:bdver4"))
    artifact.write(tmp_path / "step.dmc")
    with pytest.raises(dmc.errors.ArtifactError, match=r"step\.dmc: requires fma4"):
        dmc.load(tmp_path / "step.dmc")
    with pytest.raises(dmc.errors.ArtifactError, match="requires fma4"):
        dmc.compile(**_arguments("cpu:bdver4"))
    assert Artifact.read(tmp_path / "step.dmc", to_run=False).requires == artifact.requires


def test_a_file_demands_only_what_its_code_can_use() -> None:
    # Of all that has a name here, this one has the most: keys, hashes, matrix units, more registers.
    requires = dmc.compile_artifact(**_arguments("cpu:diamondrapids"), verify=True).requires
    assert is_checked(requires)
    assert {"avx512f", "fma"} < set(requires)
    assert not {"aes", "amx-tile", "avx10.2", "avx512ifma", "egpr", "gfni", "sha", "vaes"} & set(requires)


@pytest.mark.parametrize("target", ["cpu:", "cpu:abacus", "cuda:0"])
def test_processors_that_do_not_exist(target: str) -> None:
    with pytest.raises(dmc.errors.DmcError, match=r"does not exist|is not a processor"):
        dmc.compile(**_arguments(target))
