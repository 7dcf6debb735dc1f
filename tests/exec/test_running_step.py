"""A running step survives signals, other threads, forks and many loads; `bench.running_step` does more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

import dmc
from bench import running_step
from dmc.errors import DmcError
from dmc.program.devices import device_count
from dmc.runtime import Step, load
from tests import linear_step

ROWS = torch.ones(6, 4), torch.zeros(6, dtype=torch.int64)

ERRORS = {
    "calls it": "DmcError step: is of the process that this one was forked from",
    "reads a loss": "DmcError step: is of the process that this one was forked from",
    "saves it": "DmcError step: is of the process that this one was forked from",
    "loads its own": "DmcError device 'local-task': was opened before this process was forked",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A step with several lanes, each a device of IREE."""
    path = tmp_path_factory.mktemp("running") / "step.dmc"
    model, example = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)), (ROWS[0], ROWS[1])
    loss, optimizer = nn.functional.cross_entropy, dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    artifact = dmc.compile_artifact(model, loss=loss, optimizer=optimizer, example=example, verify=False)
    assert device_count(artifact.job) > 1
    artifact.write(path)
    return path


def batch(path: Path) -> running_step.Batch:
    return running_step.any_batch(load(path).signature)


def test_ctrl_c_at_any_moment_leaves_a_step_whole(path: Path) -> None:
    counts = running_step.interrupts(lambda: load(path), batch(path), 60)
    assert (counts["interrupts"], counts["right"]) == (60, 60)


def test_calls_from_several_threads_are_those_of_one(path: Path) -> None:
    counts = running_step.threads(lambda: load(path), batch(path), 3, 150)
    assert (counts["calls"], counts["right"]) == (450, 1)


@pytest.mark.parametrize("name", running_step.FORKS)
def test_a_forked_child_ends_and_the_parent_goes_on(path: Path, name: str) -> None:
    ended = running_step.fork(path, "cpu", name)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == "child 0 parent 0.0 0.0"
    assert ERRORS.get(name, "") in ended.stdout


def test_a_child_forked_after_the_step_was_closed_ends() -> None:
    Step(linear_step.artifact()).close()
    if not (pid := os.fork()):
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_loads_and_closes_leave_nothing_behind(path: Path) -> None:
    """In a process of its own: what this one has freed would hide it."""
    command = [sys.executable, "-m", "bench.running_step", str(path), "--only", "loads", "--loads", "150"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout


def test_two_open_steps_share_no_lanes(path: Path) -> None:
    first, second = load(path), load(path)
    losses = [[float(step(*ROWS)) for _ in range(3)] for step in (first, second)]
    assert losses[0] == losses[1]
    first.close()
    assert float(load(path)(*ROWS)) == losses[0][0]
    assert second.steps_done == 3


def test_a_step_that_another_thread_closes_says_so(path: Path) -> None:
    step = load(path)
    thread = threading.Thread(target=step.close)
    thread.start()
    thread.join()
    with pytest.raises(DmcError, match="is closed"):
        step(*ROWS)
