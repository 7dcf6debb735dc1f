"""What must become of a mutant."""

from __future__ import annotations

from random import Random

from dmc.errors import ProofError
from dmc.program import Job
from dmc.proof import verify
from tests.mutations import of_memory, of_order, of_ranks
from tests.mutations.equivalence import difference
from tests.mutations.mutators import Mutator

# Importing them fills the table of mutators.
FAMILIES = (of_memory, of_order, of_ranks)


def mutant_of(mutator: Mutator, job: Job, attempt: object) -> Job | None:
    """The job, broken; None where there is nothing to break in this way."""
    mutant = mutator.change(job, Random(f"{mutator.name} {attempt}"))
    return None if mutant == job else mutant


def refusal(job: Job) -> str:
    """The property that refuses the job, or ""."""
    try:
        verify(job)
    except ProofError as error:
        return error.property
    return ""


def assert_refused_or_equal(mutator: Mutator, job: Job, attempt: object) -> str:
    """Breaks a job; returns the property that refuses it, "" where there was nothing to break, or no harm done.

    Some damage does none: an await that another implies, say. That must be seen without the proof.
    """
    if (mutant := mutant_of(mutator, job, attempt)) is None:
        return ""
    property = refusal(mutant)
    assert property in mutator.refused_by or not property, f"{mutator.name} {attempt}: refused by {property}"
    if not property:
        assert difference(job, mutant) == "", f"{mutator.name} {attempt} is accepted"
    return property
