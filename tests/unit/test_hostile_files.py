"""Hostile `.dmc` files: each is read as what it says, or refused with an error that names file and fact; never
anything else, in little time and memory."""

from __future__ import annotations

import contextlib
import io
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from dmc.cli.main import main
from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.state.saved_state import read_state
from dmc.runtime.tensors.arrays import zeros
from dmc.runtime.tensors.index_bounds import IndexCheck
from dmc.runtime.tensors.ranks import Ranks
from dmc.runtime.tensors.tree import leaf_indices
from tests.artifacts import artifact_of
from tests.hostile import changed, damaged, members_of, tricked
from tests.linear_step import SIGNATURE
from tests.random_jobs import random_job

# What reading one of these files, of at most 1 MB, takes at most: seconds of a processor, and kilobytes.
SECONDS, MEMORY = 10.0, 400_000


@dataclass
class Seen:
    """The variants so far."""

    count: int = 0
    refused: int = 0
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def read(self, path: Path, variant: str, ways: dict[str, Callable[[Path], object]]) -> None:
        """Reads a variant in several ways; anything but success and a clear error is wrong."""
        self.count += 1
        for name, way in ways.items():
            begin = time.process_time()
            try:
                way(path)
            except DmcError as error:
                self.refused += 1
                if str(path) not in str(error) or not error.fact:
                    self.wrong.append(f"{variant}, {name}: names no file: {error}")
            except Exception as error:
                self.wrong.append(f"{variant}, {name}: {type(error).__name__}: {str(error)[:200]}")
            self.slowest = max(self.slowest, time.process_time() - begin)


def _prepared(path: Path) -> None:
    """What a step makes of the signatures in a file before it opens a device."""
    artifact = Artifact.read(path)
    for program in (artifact, *artifact.programs.values()):
        signature = program.signature
        ranks = Ranks(signature)
        ranks.scatter(signature.state, artifact.state)
        checks = [IndexCheck(bound, signature.batch) for bound in signature.bounds]
        batch = [zeros(spec.shape, dtype_of(spec.dtype).numpy) for spec in signature.batch]
        for check in checks if sum(array.size for array in batch) < 1 << 20 else []:
            check.check(batch)
        leaves = [*leaf_indices(signature.args), *leaf_indices(signature.kwargs)]
        assert sorted(leaves) == [*range(len(batch))]


WAYS: dict[str, Callable[[Path], object]] = {"load": _prepared, "state": read_state}


def _shown(*command: str) -> Callable[[Path], object]:
    """A command that shows the file; what it refuses, it says in one message."""

    def show(path: Path) -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            code = main([command[0], str(path), *command[1:]])
        if code and not said.getvalue().startswith("dmc: error: "):
            raise RuntimeError(said.getvalue())

    return show


SHOWN = {" ".join(each): _shown(*each) for each in (("inspect",), ("memory",), ("ledger",), ("plan",), ("weights",))}


def _hunted(file: Path, folder: Path, count: int, seed: int, ways: dict[str, Callable[[Path], object]]) -> Seen:
    """What becomes of `count` variants of each kind."""
    whole, members, seen = file.read_bytes(), members_of(file), Seen()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = folder / "hostile.dmc"
    for number in range(count):
        random = Random(f"{seed} {number}")
        damaged(path, whole, random)
        seen.read(path, f"damaged {seed} {number}", ways)
        tricked(path, members, random)
        seen.read(path, f"tricked {seed} {number}", ways)
        for turn in range(3):
            changed(path, members, random)
            seen.read(path, f"changed {seed} {number}.{turn}", ways)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert seen.wrong == []
    assert (seen.slowest < SECONDS, grown < MEMORY) == (True, True), f"{seen.slowest:.1f} s, {grown} kB"
    return seen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Several ranks, and a second program, on a mesh of which not all ranks have all."""
    job = random_job(3)
    holders = {"bias": (1, 3), "weight": (0, 2), "x": (0, 2), "loss": (1, 3)}
    signature = replace(SIGNATURE, mesh={"dp": 2, "pp": 2}, splits={"weight": ((), (("dp", 1),))}, holders=holders)
    other = artifact_of(job, signature=signature)
    replace(artifact_of(job), programs={"evaluation": replace(other, state=())}).write(tmp_path / "step.dmc")
    return tmp_path / "step.dmc"


def test_every_variant_is_read_or_refused(file: Path, tmp_path: Path) -> None:
    Artifact.read(file)
    seen = _hunted(file, tmp_path, 40, 0, {**WAYS, "inspect": SHOWN["inspect"]})
    assert seen.count == 200
    assert seen.refused > seen.count


@pytest.mark.large
@pytest.mark.parametrize("seed", range(5))
def test_every_variant_of_many(file: Path, tmp_path: Path, seed: int) -> None:
    _hunted(file, tmp_path, 60, 1 + seed, {**WAYS, **SHOWN})
