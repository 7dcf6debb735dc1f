"""Each field of a plan, changed alone: what is accepted computes the same, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from dmc.errors import ProofError
from dmc.program import Job
from dmc.proof import verify
from tests.large import large_unless
from tests.markdown import DOCS
from tests.mutations.accepted import ACCEPTED, Original
from tests.mutations.fields import Places, fields_of
from tests.mutations.sorts import SORTS, TARGETS, planned
from tests.random_jobs import random_job

FIELDS = fields_of(Job)
# Of these something is refused.
COVERED = {
    "Job": "mesh channels kernels classes stages",
    "Class": "ranks program",
    "Channel": "name axes groups",
    "Kernel": "name reads writes scratch",
    "Operand": "dtype shape",
    "Program": "rank arenas lanes slots commands buffers",
    "Lane": "name queue channel",
    "Slot": "name role dtype shape range",
    "Buffer": "range first last",
    "Range": "space offset length",
    "Slice": "read strides",
    "Variants": "axes kernels",
    "Launch": "lane kernel reads writes scratch slices variants",
    "Move": "lane source target slices",
    "Collective": "lane kind channel ranks instance dtype count source target reduction accumulate peer pairs slices",
    "Record": "lane event",
    "Await": "lane event",
}
# These may be anything: `docs/verification.md` says why.
FREE = {
    "Buffer": "label category",
    "Kernel": "flops traffic implementation kind",
    "Launch": "label action",
    "Move": "label",
    "Collective": "label action",
}
QUICK = (("dp", "cpu"), ("offload", "cuda"), ("several programs", "cpu"))
EVERY = [(sort, target) for sort in SORTS for target in TARGETS]
ATTEMPTS, MANY = 2, 12
RANDOM_JOBS = range(12)


def _names(table: dict[str, str]) -> list[str]:
    return [f"{struct}.{name}" for struct, names in table.items() for name in names.split()]


def _mutants(places: Places, name: str, seed: int, attempts: int = ATTEMPTS) -> Iterator[Job]:
    """The job with a field changed, again and again."""
    for attempt in range(attempts):
        mutant = places.mutant(name, FIELDS[name], Random(f"{name} {seed} {attempt}"))
        if mutant is not None:
            yield mutant


def _is_refused(job: Job) -> bool:
    try:
        verify(job)
    except ProofError:
        return True
    return False


@cache
def _places(seed: int) -> Places:
    return Places.of(random_job(seed))


def test_every_field_is_known() -> None:
    assert sorted([*_names(COVERED), *_names(FREE)]) == sorted(FIELDS)


def test_what_may_be_anything_is_documented() -> None:
    _, text = (DOCS / "verification.md").read_text(encoding="utf-8").split("## What no check covers")
    assert [name for name in _names(FREE) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", _names(COVERED))
def test_every_field_is_checked(name: str) -> None:
    """Something else in it is refused, in words; of jobs of which nobody says what they compute."""
    assert sum(_is_refused(mutant) for seed in RANDOM_JOBS for mutant in _mutants(_places(seed), name, seed))


@pytest.mark.parametrize("which", large_unless(QUICK, EVERY), ids=" for ".join)
def test_what_is_accepted_computes_the_same(which: tuple[str, str]) -> None:
    original = Original(planned(*which))
    attempts, refusals = ATTEMPTS if which in QUICK else MANY, dict.fromkeys(FIELDS, 0)
    for number, job in enumerate(original.planned.jobs):
        places = Places.of(job)
        for name in FIELDS:
            verdicts = [original.verdict(number, mutant) for mutant in _mutants(places, name, number, attempts)]
            refusals[name] += sum(verdict != ACCEPTED for verdict in verdicts)
    assert all(refusals[name] for name in ("Slot.range", "Launch.writes", "Buffer.first", "Record.event"))
