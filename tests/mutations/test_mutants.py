"""Accepted jobs, broken in many ways: each mutant is refused by the property that it violates, or means the same."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from dmc.program import Job
from dmc.proof import PROPERTIES
from tests.mutations.check import assert_refused_or_equal, mutant_of, refusal
from tests.mutations.equivalence import shows
from tests.mutations.mutators import MUTATORS, UNORDERED, Mutator
from tests.random_jobs import random_job

JOBS = range(30)
ATTEMPTS = range(3)
# Together the jobs give so many mutants that are refused.
WANTED = 2000


@cache
def _job(seed: int) -> Job:
    return random_job(seed)


@cache
def _refusals(mutator: Mutator) -> Counter[str]:
    """How often which property refuses mutants of this kind; "" stands for those that do no harm."""
    tries = [(_job(seed), (seed, attempt)) for seed in JOBS for attempt in ATTEMPTS]
    broken = [(job, attempt) for job, attempt in tries if mutant_of(mutator, job, attempt) is not None]
    return Counter(assert_refused_or_equal(mutator, job, attempt) for job, attempt in broken)


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda mutator: mutator.name)
def test_mutants_are_refused(mutator: Mutator) -> None:
    found = _refusals(mutator)
    assert found.total() - found[""] > found[""]


def test_there_are_enough_mutants() -> None:
    refused = sum(found.total() - found[""] for found in map(_refusals, MUTATORS))
    assert len(MUTATORS) >= 12 and refused >= WANTED


def test_every_property_refuses_some() -> None:
    """V9 is about passes, not about jobs."""
    found = {property for mutator in MUTATORS for property in _refusals(mutator)}
    assert found >= set(PROPERTIES)


def test_races_show() -> None:
    """A mutant refused for lack of order gives another result in some interleaving."""
    seen: Counter[bool] = Counter()
    for mutator in (each for each in MUTATORS if each.refused_by == UNORDERED):
        for seed in JOBS[:12]:
            mutant = mutant_of(mutator, _job(seed), seed)
            if mutant is not None and refusal(mutant) in ("V2", "V6", "V7"):
                seen[shows(_job(seed), mutant)] += 1
    assert seen[True] > 0 and seen[False] == 0, seen
