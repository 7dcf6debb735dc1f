"""Faults of one rank end all ranks in time, with an error that names it; then the job resumes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from dmc.program import Collective
from dmc.program.labels import short
from dmc.runtime import Checkpoints, load
from dmc.runtime.files.artifact import Artifact
from tests.world.conftest import Files
from tests.world.processes import Ended, run_ranks
from tests.world.rank import FAULTS, Fault, Task
from tests.world.rehearsal import compiled_losses

TIMEOUT_S = 5.0
# What a busy machine may take to end a process.
SLACK_S = 5.0
STEPS = 6
# The movement just before which a rank fails; and the first one, for which it waits if another does not begin a step.
WITHIN, FIRST = "reduce_scatter", "all_gather"


def drill(file: Path, kind: str, step: int, place: int | None, checkpoints: str = "") -> tuple[Ended, Ended]:
    """How rank 0 and rank 1 end after a fault of rank 1."""
    task = Task(str(file), STEPS, TIMEOUT_S, fault=Fault(kind, 1, step, place), checkpoints=checkpoints)
    first, second = run_ranks(task)
    assert first.code == 1, first.errors
    assert first.seconds <= TIMEOUT_S + SLACK_S
    return first, second


@pytest.mark.parametrize(
    ("kind", "step", "waits", "said", "also_there"),
    [
        ("kill", 3, WITHIN, "rank 1 has sent no heartbeat for .* s; it was last seen", False),
        ("stop", 1, WITHIN, "rank 1 has sent no heartbeat for .* s; it was last seen", False),
        ("raise", 4, FIRST, r"rank 1 raised ValueError: no such batch \(.*rank.py:\d+\)", False),
        ("stall", 3, FIRST, r"rank 1 has not reached step 3 for .* s; it is in user code after step 2", True),
        ("terminate", 3, WITHIN, r"rank 1 was terminated \(SIGTERM\)", True),
    ],
    ids=lambda each: each if each in FAULTS else "",
)
def test_a_fault_ends_all_ranks(files: Files, kind: str, step: int, waits: str, said: str, also_there: bool) -> None:
    place, movement = _movement(files.ranks, waits)
    first, second = drill(files.ranks, kind, step, place if waits == WITHIN else None)
    here = rf"this rank is in step {step}, command \d+ of \d+: {re.escape(movement)} over dp"
    assert re.search(rf"rank 0: {said}.*\n  {here} \(ranks 0, 1\)", first.errors), first.errors
    assert first.errors.startswith("dmc: error: rank 0: ")
    assert len(first.losses) == step - 1
    # A main thread that hangs does not keep its process alive.
    assert bool(re.search(f"dmc: error: rank 1: {said}", second.errors)) == also_there
    assert second.code == (1 if also_there or kind == "raise" else -9)


def _movement(file: Path, kind: str) -> tuple[int, str]:
    """The place of the first movement of a kind in the program of rank 1, and what an error calls it."""
    commands = Artifact.read(file, to_run=False).job.programs[1].commands
    return next(
        (place, f"{kind} of {short(each.label)}")
        for place, each in enumerate(commands)
        if isinstance(each, Collective) and each.kind == kind
    )


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "fill the disk",
            r"the checkpoint of step 4: rank 1 could not write it: .*rank-00001.*File too large.*\n.*step-00000002",
        ),
        ("kill in checkpoint", "rank 1 has sent no heartbeat"),
    ],
    ids=lambda each: each if each in FAULTS else "",
)
def test_a_job_resumes_from_the_last_whole_checkpoint(files: Files, tmp_path: Path, kind: str, said: str) -> None:
    first, _ = drill(files.ranks, kind, 4, None, str(tmp_path))
    assert re.search(said, first.errors), first.errors
    assert [path.name for path in sorted(tmp_path.glob("step-*"))] == ["step-00000002"]
    resumed = run_ranks(Task(str(files.ranks), STEPS, TIMEOUT_S, checkpoints=str(tmp_path)))
    never_stopped = run_ranks(Task(str(files.ranks), STEPS, TIMEOUT_S))
    for one, other in zip(resumed, never_stopped, strict=True):
        assert one.losses == other.losses[2:]
        assert one.state == other.state
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000004", "step-00000006"]
    _goes_on_alone(files.alone, tmp_path, never_stopped[0].losses[4:])


def _goes_on_alone(file: Path, checkpoints: Path, losses: list[float]) -> None:
    """A single rank resumes at step 4 with the same losses, up to the order of sums, and writes a checkpoint itself."""
    shutil.rmtree(checkpoints / "step-00000006")
    step = load(file)
    keeper = Checkpoints(step, checkpoints)
    assert keeper.resume() == 4
    own = compiled_losses(step, 5, 1)
    keeper.save()
    keeper.wait()
    np.testing.assert_allclose(own + compiled_losses(step, 6, 1), losses, rtol=1e-5)
    again = load(file)
    assert Checkpoints(again, checkpoints).resume() == 5
    assert compiled_losses(again, 6, 1) == pytest.approx(losses[-1:], rel=1e-5)
    np.testing.assert_equal(again.state_dict(), step.state_dict())
