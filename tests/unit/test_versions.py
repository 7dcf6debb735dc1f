"""Versions of PyTorch: which are supported, and how operations are looked up that only some of them have."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from dmc.errors import DmcError
from dmc.importer.versions import SUPPORTED, check_version, until, version_of

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _asked(name: str) -> Requirement:
    (found,) = [each for each in map(Requirement, PROJECT["optional-dependencies"]["compile"]) if each.name == name]
    return found


def test_pip_installs_the_supported_versions_alone() -> None:
    asked = _asked("torch").specifier
    minors = [(2, minor) for minor in range(30)]
    assert tuple(each for each in minors if asked.contains(f"{each[0]}.{each[1]}.1")) == SUPPORTED
    # Wheels from PyTorch's own index have a suffix.
    assert asked.contains("2.13.0+cpu")


@pytest.mark.parametrize("found", ["2.12.1", "2.15.0", "3.0.0a0+git1234"])
def test_other_versions_are_one_clear_line(found: str) -> None:
    with pytest.raises(DmcError) as caught:
        check_version(found)
    fact, hint = str(caught.value).splitlines()
    assert fact.startswith(f"PyTorch {found}: is not supported by dmc ")
    assert fact.endswith(", which works with 2.13 and 2.14")
    assert hint == f"  hint: pip install '{_asked('torch').name}>=2.13,<2.15'"


def test_the_version_is_checked_before_anything_of_it_is_looked_up() -> None:
    script = "import torch, dmc; torch.__version__ = '2.99.0'; torch.ops.aten = None; dmc.compile"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-2].startswith("dmc.errors.DmcError: PyTorch 2.99.0: is not supported"), done.stderr


def test_operations_that_some_versions_lack() -> None:
    here = version_of(torch.__version__)
    later, sooner = (here[0], here[1] + 1), here
    assert until(later, {"relu.default": 1}) == {torch.ops.aten.relu.default: 1}
    assert until(sooner, {"relu.default": 1}) == {}
    with pytest.raises(AttributeError):
        until(later, {"nothing_of_the_kind.default": 1})
    assert hasattr(torch.ops.aten, "cholesky") == (here < (2, 14))
