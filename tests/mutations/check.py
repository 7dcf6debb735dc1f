"""What must become of a mutant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from dmc.errors import ProofError
from dmc.program import Job
from dmc.proof import verify
from tests.mutations import of_memory, of_order, of_ranks, of_slots
from tests.mutations.equivalence import difference, shows
from tests.mutations.mutators import UNORDERED, Mutator

# Importing them fills the table of mutators.
FAMILIES = (of_memory, of_order, of_ranks, of_slots)

# What refuses a job in which two accesses of a rank lack an order.
RACES = ("V2", "V6", "V7")


def mutant_of(mutator: Mutator, job: Job, attempt: object) -> Job | None:
    """The job, broken; None where there is nothing to break in this way, or no harm done.

    An order that is taken away does none where it is kept by another path, say by a later event of the same lane. That
    is seen without the proof.
    """
    mutant = mutator.change(job, Random(f"{mutator.name} {attempt}"))
    if mutant is None or mutant == job:
        return None
    return None if mutator.refused_by == UNORDERED and not difference(job, mutant) else mutant


def refusal(job: Job) -> str:
    """The property that refuses the job, or ""."""
    try:
        verify(job)
    except ProofError as error:
        return error.property
    return ""


def refusals(mutator: Mutator, jobs: Iterable[tuple[Job, object]]) -> Counter[str]:
    """How often which property refuses mutants of jobs, each made by an attempt of its own.

    Raises AssertionError for a mutant that is accepted, or refused for another reason than what is wrong with it.
    """
    found: Counter[str] = Counter()
    for job, attempt in jobs:
        if (mutant := mutant_of(mutator, job, attempt)) is not None:
            property = refusal(mutant)
            assert property in mutator.refused_by, f"{mutator.name} {attempt}: refused by '{property}'"
            found[property] += 1
    return found


def assert_shown(mutator: Mutator, job: Job, attempt: object) -> bool:
    """Whether a mutant lacks an order between two accesses; asserts that an interleaving then gives another result."""
    mutant = mutant_of(mutator, job, attempt)
    if mutant is None or refusal(mutant) not in RACES:
        return False
    assert shows(job, mutant), f"{mutator.name} {attempt}: every interleaving gives the same"
    return True
