"""Ranks in processes of their own compute what the rehearsal in one process does, to the bit; or do not start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dmc.runtime import load
from dmc.runtime.files.artifact import Artifact
from tests.world.conftest import Files
from tests.world.processes import launched, run_ranks
from tests.world.rank import Task
from tests.world.rehearsal import compiled_losses, rehearsed

STEPS = 4


def test_processes_compute_what_the_rehearsal_does(files: Files) -> None:
    artifact = Artifact.read(files.ranks)
    losses, state = rehearsed(artifact, STEPS)
    for rank, ended in enumerate(run_ranks(Task(str(files.ranks), STEPS, 20))):
        assert ended.code == 0, ended.errors
        assert ended.losses == losses
        assert ended.state == {name: array.tobytes().hex() for name, array in state[rank].items()}
    np.testing.assert_allclose(losses, compiled_losses(load(files.ranks), 1, STEPS), rtol=1e-5)


def test_stages_in_processes_compute_what_the_rehearsal_does(files: Files) -> None:
    """Each process has the state of its stage alone."""
    artifact = Artifact.read(files.stages)
    losses, state = rehearsed(artifact, STEPS)
    for rank, ended in enumerate(run_ranks(Task(str(files.stages), STEPS, 20))):
        assert ended.code == 0, ended.errors
        assert ended.losses == losses
        assert ended.state == {name: array.tobytes().hex() for name, array in state[rank].items()}
        assert ("0.weight" in ended.state, "2.weight" in ended.state) == (rank == 0, rank == 1)


def test_stages_resume_what_other_ranks_have_written(files: Files, tmp_path: Path) -> None:
    """And these what stages have written."""
    found: list[list[float]] = []
    for file, steps in ((files.stages, 2), (files.ranks, 4), (files.stages, 6)):
        ended = run_ranks(Task(str(file), steps, 20, checkpoints=str(tmp_path)))
        assert [each.code for each in ended] == [0, 0], ended[0].errors
        found.append(ended[1].losses)
    expected, _ = rehearsed(Artifact.read(files.ranks), 6)
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5)


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_launchers(files: Files, launcher: str) -> None:
    task = Task(str(files.ranks), 2, 20)
    losses = [json.loads(line).get("loss") for line in launched(launcher, task).splitlines()]
    expected, _ = rehearsed(Artifact.read(files.ranks), 2)
    assert sorted(filter(None, losses)) == sorted(2 * expected)


def test_an_error_of_every_rank_ends_mpirun(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no such file"):
        launched("mpirun", Task(str(tmp_path / "none.dmc"), 2, 20))


def test_another_file_on_one_rank_starts_nothing(files: Files, tmp_path: Path) -> None:
    artifact = Artifact.read(files.ranks)
    state = [artifact.state[0] + 1, *artifact.state[1:]]
    artifact.write(tmp_path / "0.dmc")
    replace(artifact, state=tuple(state)).write(tmp_path / "1.dmc")
    for ended in run_ranks(Task(str(tmp_path / "{rank}.dmc"), STEPS, 20)):
        assert ended.code == 1
        assert "the ranks: do not start:\n  the state of rank 1 differs from that of rank 0" in ended.errors


def test_a_missing_rank_is_named(files: Files) -> None:
    (ended,) = run_ranks(Task(str(files.ranks), STEPS, 2), started=1)
    assert ended.code == 1
    assert "rank 0: rank 1 did not reach 'start' within 2 s" in ended.errors
