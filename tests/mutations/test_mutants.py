"""Accepted jobs, broken in many ways: each mutant is refused by the property that it violates, or means the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from dmc.errors import ProofError
from dmc.program import Job
from dmc.proof import verify
from tests.mutations import of_memory, of_order, of_ranks
from tests.mutations.equivalence import difference, shows
from tests.mutations.mutators import MUTATORS, UNORDERED, Mutator
from tests.random_jobs import random_job

JOBS = 24
TRIES = 3
# Together the jobs give so many mutants that are refused.
WANTED = 2000
# Importing them filled the table.
FAMILIES = (of_memory, of_order, of_ranks)


def _mutants(mutator: Mutator) -> Iterator[tuple[Job, Job]]:
    for seed in range(JOBS):
        job = random_job(seed)
        for attempt in range(TRIES):
            mutant = mutator.change(job, Random(f"{mutator.name}{seed}.{attempt}"))
            if mutant is not None and mutant != job:
                yield job, mutant


def _refusal(job: Job) -> str:
    """The property that refuses the job, or ""."""
    try:
        verify(job)
    except ProofError as error:
        return error.property
    return ""


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda mutator: mutator.name)
def test_mutants_are_refused(mutator: Mutator) -> None:
    counts: Counter[str] = Counter()
    for job, mutant in _mutants(mutator):
        property = _refusal(mutant)
        counts[property] += 1
        # Some damage does no harm: an await that another implies, say. That must be seen without the proof.
        assert property in mutator.refused_by or (not property and difference(job, mutant) == "")
    assert counts.total() - counts[""] > counts[""]


def test_there_are_enough_mutants() -> None:
    refused = sum(bool(_refusal(mutant)) for mutator in MUTATORS for _, mutant in _mutants(mutator))
    assert len(MUTATORS) >= 12 and refused >= WANTED


def test_races_show() -> None:
    """A mutant refused for lack of order gives another result in some interleaving."""
    seen: Counter[bool] = Counter()
    for mutator in (each for each in MUTATORS if each.refused_by == UNORDERED):
        for job, mutant in _mutants(mutator):
            if _refusal(mutant) in ("V2", "V6", "V7"):
                seen[shows(job, mutant)] += 1
    assert seen[True] > 0 and seen[False] == 0, seen
