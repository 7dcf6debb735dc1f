"""Accepted jobs, broken in many ways: each mutant is refused by the property that it violates."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from dmc.program import Job
from dmc.proof import PROPERTIES, verify
from tests.large import large_unless
from tests.mutations.check import assert_shown, refusals
from tests.mutations.mutators import MUTATORS, UNORDERED, Mutator
from tests.mutations.plans import NAMES, QUICK, planned
from tests.random_jobs import random_job

JOBS = range(30)
ATTEMPTS = range(3)
# Together the random jobs give so many mutants, and each plan that the compiler made so many.
WANTED = 2000
WANTED_OF_PLAN = 120
RACING = [each for each in MUTATORS if each.refused_by == UNORDERED]


@cache
def _job(seed: int) -> Job:
    return random_job(seed)


@cache
def _refusals(mutator: Mutator) -> Counter[str]:
    return refusals(mutator, [(_job(seed), (seed, attempt)) for seed in JOBS for attempt in ATTEMPTS])


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda mutator: mutator.name)
def test_mutants_are_refused(mutator: Mutator) -> None:
    assert _refusals(mutator).total() > 0


def test_there_are_enough_mutants() -> None:
    assert len(MUTATORS) >= 12
    assert sum(_refusals(mutator).total() for mutator in MUTATORS) >= WANTED


def test_every_property_refuses_some() -> None:
    """V9 is about passes, not about jobs; what V11 refuses stands in `test_dataflow_mutants.py`."""
    assert {property for mutator in MUTATORS for property in _refusals(mutator)} == set(PROPERTIES) - {"V11"}


def test_races_show() -> None:
    """A mutant refused for lack of order gives another result in some interleaving."""
    assert sum(assert_shown(mutator, _job(seed), seed) for mutator in RACING for seed in JOBS[:12]) > 0


@pytest.mark.parametrize("name", large_unless(QUICK, NAMES))
def test_mutants_of_what_the_compiler_planned(name: str, context: Any) -> None:
    job = planned(name, context)
    verify(job)
    found = sum((refusals(mutator, [(job, attempt) for attempt in range(4)]) for mutator in MUTATORS), Counter[str]())
    assert found.total() >= WANTED_OF_PLAN
    assert set(found) >= {"V1", "V2", "V3", "V4", "V6", "V7", "V8", "V10"}
    assert sum(assert_shown(mutator, job, 0) for mutator in RACING) > 0
