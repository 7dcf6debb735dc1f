"""The wheel, installed as users install it: the runtime trains alone, the compiler compiles beside its packages."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from shutil import copytree, ignore_patterns

import numpy as np
import pytest

from dmc.distribution import install
from dmc.runtime import Step
from tests import linear_step
from tests.linear_step import batch

ROOT = Path(__file__).parents[2]
STEPS = 3
MAKE_STEP = """
import torch, dmc

def step():
    example = (torch.ones(4, 3), torch.ones(4, 2))
    loss, optimizer = torch.nn.functional.mse_loss, dmc.optim.SGD(lr=0.1)
    return {"model": torch.nn.Linear(3, 2), "loss": loss, "optimizer": optimizer, "example": example}
"""


def _environment() -> dict[str, str]:
    """That of this process, in which no other dmc is found."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=_environment(), check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since building leaves files beside the source."""
    folder = tmp_path_factory.mktemp("wheel")
    probe = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder / "probe"),
        "msgspec",
    ]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("pip finds no package index here, so nothing can be installed")
    copytree(ROOT / "dmc", folder / "source" / "dmc", ignore=ignore_patterns("__pycache__"))
    (folder / "source" / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, folder / "source")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    _run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet", wheel)
    return folder / "bin"


def test_the_wheel_is_complete(wheel: Path) -> None:
    # Tables, machines and pages, too.
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dmc").rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("dmc/")}
    assert packed == {name for name in files if "__pycache__" not in name}
    assert {Path(name).suffix for name in packed} == {".py", ".json", ".html", ".css", ".js"}


def test_the_runtime_trains_alone(environment: Path, tmp_path: Path) -> None:
    step = Step(linear_step.artifact())
    step.save(tmp_path / "step.dmc")
    batches = [batch(seed) for seed in range(STEPS)]
    np.savez(tmp_path / "batches.npz", allow_pickle=False, **{n: np.stack([b[n] for b in batches]) for n in batches[0]})
    files = ("step.dmc", "--steps", STEPS, "--batches", "batches.npz", "-o", "trained.dmc")
    printed = _run(environment / "dmc", "run", *files, cwd=tmp_path)
    losses = [float(step.call_flat(each)[0]) for each in batches]
    assert [line.split()[-1] for line in printed.splitlines()[:STEPS]] == [f"{loss:.6f}" for loss in losses]
    for command in (
        ("memory", "--html", "m.html"),
        ("inspect",),
        ("simulate", "--machine", "h200", "--html", "s.html"),
    ):
        assert _run(environment / "dmc", command[0], "trained.dmc", *command[1:], cwd=tmp_path)
    installed = _run(environment / "python", "-c", "import dmc; print(dmc.__file__)", cwd=tmp_path)
    assert Path(installed.strip()).is_relative_to(environment.parent)
    asked = [environment / "python", "-c", "import dmc; dmc.compile"]
    refused = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path, env=_environment(), check=False)
    assert f"hint: {install('compile')}" in refused.stderr


def test_the_compiler_compiles_beside_its_packages(environment: Path, tmp_path: Path) -> None:
    (site,) = (environment.parent / "lib").glob("python*/site-packages")
    # The packages of the extra `compile` are large: those of this environment are lent to the other.
    lent = site / "lent.pth"
    lent.write_text(sysconfig.get_path("purelib"))
    try:
        (tmp_path / "make.py").write_text(MAKE_STEP)
        _run(environment / "dmc", "compile", "make:step", "-o", "c.dmc", "--verify", "--quiet", cwd=tmp_path)
        assert "dm-bucket" in _run(environment / "dmc-opt", "--list-passes", cwd=tmp_path)
    finally:
        lent.unlink()
    assert "-> loss" in _run(environment / "dmc", "inspect", "c.dmc", cwd=tmp_path)
