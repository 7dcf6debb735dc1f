"""The runtime where nothing but its own dependencies is installed: neither torch nor torch-mlir nor a compiler."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dmc
from dmc.runtime import Step, load
from tests import linear_step
from tests.linear_step import batch, call

# What `pip install dmc` brings, as far as the runtime goes. `.libs` are the shared libraries inside numpy's wheel.
PACKAGES = ("msgspec", "numpy", "ml_dtypes", "safetensors")
OPTIONAL = ("numpy.libs",)
IREE = ("runtime", "_runtime", "_runtime_libs")

PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
import dmc
import dmc.runtime
assert not {"iree", "torch", "safetensors"} & set(sys.modules), "import dmc is not lazy"

step = dmc.runtime.load(sys.argv[3])
assert step.steps_done == 2, step.steps_done
batches = np.load(sys.argv[4])
losses = []
for i in range(3):
    b = {name: batches[name][i] for name in batches.files}
    loss, aux = step(b["x"], {"y": b["y"], "ids": b["ids"]}, mask=b["mask"], mean=True)
    losses.append(float(loss))
step.save(sys.argv[5])
print(*[x.hex() for x in losses])

for name in ("torch", "torch_mlir", "iree.compiler", "transformers", "rich"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} can be imported: this environment proves nothing")
try:
    dmc.compile
except dmc.errors.DmcError as error:
    assert "requires the package" in str(error), error
else:
    raise SystemExit("dmc.compile found a compiler")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with the runtime's dependencies only."""
    site = tmp_path / "site"
    (site / "iree").mkdir(parents=True)
    for name in PACKAGES:
        _link(site / name, _folder(name))
    for name in OPTIONAL:
        if (found := _folder("numpy").parent / name).exists():
            _link(site / name, found)
    for name in IREE:
        _link(site / "iree" / name, _folder("iree.runtime").parent / name)
    return site


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _link(link: Path, target: Path) -> None:
    link.symlink_to(target, target_is_directory=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder from which only `dmc` can be imported."""
    (tmp_path / "source").mkdir()
    _link(tmp_path / "source" / "dmc", Path(dmc.__path__[0]))
    return tmp_path / "source"


def _run(program: str, *arguments: Path) -> str:
    """The output of a program where only the packages in the first and second argument exist."""
    # -I: no user site, no PYTHON… variables; -S: no site-packages.
    command = [sys.executable, "-I", "-S", "-X", "faulthandler", "-c", program, *map(os.fspath, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_loads_and_trains_on(site: Path, source: Path, tmp_path: Path) -> None:
    step = Step(linear_step.artifact())
    for seed in range(2):
        call(step, batch(seed))
    step.save(tmp_path / "step.dmc")
    batches = [batch(seed) for seed in range(2, 5)]
    arrays: dict[str, Any] = {name: np.stack([b[name] for b in batches]) for name in batches[0]}
    np.savez(tmp_path / "batches.npz", **arrays)
    files = (tmp_path / "step.dmc", tmp_path / "batches.npz", tmp_path / "trained.dmc")
    printed = _run(PROGRAM, site, source, *files)
    expected = [float(call(step, b)[0]) for b in batches]
    assert [float.fromhex(word) for word in printed.split()] == expected
    trained = load(tmp_path / "trained.dmc")
    assert trained.steps_done == 5
    for got, wanted in zip(trained.snapshot().state, step.snapshot().state, strict=True):
        np.testing.assert_array_equal(got, wanted)


ALL_RANKS = """
import sys
sys.path[:0] = sys.argv[1:3]
import numpy as np
import dmc.runtime

step = dmc.runtime.load(sys.argv[3])
with np.load(sys.argv[4]) as batches:
    print(*[float(step(x, y)).hex() for x, y in zip(batches["x"], batches["y"])])
assert step.rank_state_dict(1)["model"]["weight"].shape == (2, 3), "split between the ranks"
assert step.state_dict()["model"]["weight"].shape == (4, 3)
assert step.differing_replicas() == ()
"""


def test_all_ranks_of_a_mesh_train_on(site: Path, source: Path, tmp_path: Path) -> None:
    batches = {"x": np.ones((2, 8, 3), np.float32), "y": np.arange(64, dtype=np.float32).reshape(2, 8, 4)}
    np.savez(tmp_path / "batches.npz", x=batches["x"], y=batches["y"])
    example = tuple(torch.from_numpy(batch[0]) for batch in batches.values())
    mesh = dmc.Mesh(dp=2)
    step = dmc.compile(
        torch.nn.Linear(3, 4),
        loss=torch.nn.functional.mse_loss,
        optimizer=dmc.optim.SGD(lr=0.1, momentum=0.9),
        example=example,
        mesh=mesh,
        plan=dmc.plan(mesh).use(dmc.plans.zero3("dp")),
    )
    step.save(tmp_path / "step.dmc")
    printed = _run(ALL_RANKS, site, source, tmp_path / "step.dmc", tmp_path / "batches.npz")
    expected = [float(step(x, y)) for x, y in zip(batches["x"], batches["y"], strict=True)]
    assert [float.fromhex(word) for word in printed.split()] == expected
