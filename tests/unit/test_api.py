"""How `dmc.compile` shows itself, and which meshes and plans it refuses."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import dmc
from dmc.errors import ArtifactError, DmcError, PlanError
from dmc.program.tuning import Table


def test_compile_takes_what_compile_artifact_takes() -> None:
    signature = inspect.signature(dmc.compile)
    assert signature.parameters == inspect.signature(dmc.compile_artifact).parameters
    assert list(signature.parameters)[:3] == ["model", "optimizer", "example"]


@pytest.mark.parametrize("function", [dmc.compile, dmc.compile_artifact], ids=lambda each: each.__name__)
def test_an_argument_that_is_misspelt_is_named(function: Any) -> None:
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument 'los'"):
        function(None, los=1)


def test_every_argument_is_documented() -> None:
    text = inspect.getdoc(dmc.compile) or ""
    undocumented = {name for name in inspect.signature(dmc.compile).parameters if f"{name}:" not in text}
    assert undocumented == {"model"}


DP2 = dmc.Mesh(dp=2)
PLAN = dmc.plan(DP2).data_parallel("dp")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"plan": dmc.plans.zero2}, r"plan: expected a plan, got function\n  hint: such as plan=dmc\.plan"),
        (
            {"plan": dmc.plans.zero2("dp")},
            r'data_parallel\("dp", zero=2\): requires a mesh\n  hint: create the plan with',
        ),
        ({"mesh": {"dp": 2}, "plan": PLAN}, r"mesh: expected a dmc\.Mesh, got dict\n  hint: such as mesh=dmc\.Mesh"),
        ({"mesh": DP2}, r'mesh: is given without a plan\n  hint: pass plan=dmc\.plan\(mesh\).*zero2\("dp"\)'),
        ({"mesh": DP2}, r"ready plans are data_parallel, .*megatron_gpt2, .*zero1, zero2, zero3$"),
        ({"mesh": DP2, "plan": dmc.plans.zero1()}, r"mesh: comes with a Recipe, not with a plan"),
        (
            {"mesh": dmc.Mesh(dp=4), "plan": PLAN},
            r"plan: is for Mesh\(dp=2\), .* Mesh\(dp=4\)\n  hint: leave mesh= out",
        ),
        (
            {"mesh": DP2, "plan": PLAN, "target": "cpu+cuda", "executor": "iree"},
            r"executor 'iree': runs one rank only, not the 2 of Mesh\(dp=2\)",
        ),
    ],
)
def test_meshes_and_plans_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    # Refused before anything is looked at, so that nothing needs to be a model.
    nothing: Any = None
    with pytest.raises(PlanError, match=message):
        dmc.compile_artifact(nothing, optimizer=None, example=None, **given)


def test_a_tuning_table_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    table, nothing = tmp_path / "gpt.tuning.json", cast(Any, None)
    with pytest.raises(ArtifactError, match="holds no tuning table"):
        dmc.compile_artifact(nothing, optimizer=None, example=None, target="cuda", tuning=table)
    Table().write(table)
    with pytest.raises(DmcError, match="chooses among dmc's kernels for GPUs; the step is for cpu"):
        dmc.compile_artifact(nothing, optimizer=None, example=None, target="cpu", tuning=table)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "cuda"}, r"device 'cuda': requires the package .*\n  hint: pip install 'dmc-compiler\[cuda\]'; "),
        ({"target": "cuda+cpu"}, r"device 'cuda': requires the package"),
        ({"target": "cuda", "executor": "iree"}, r"device 'cuda': cannot be opened"),
        ({"target": "cuda", "plan": PLAN}, r"the step: is for 2 ranks, .* hint: start it with torchrun"),
    ],
)
def test_a_missing_gpu_is_noticed_before_compiling(
    given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Imports of CuPy fail, as where it is not installed.
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    nothing: Any = None
    with pytest.raises(DmcError, match=rf"(?s){message}.*dmc\.compile_artifact\(…\)\.write\("):
        dmc.compile(nothing, optimizer=None, example=None, **given)
