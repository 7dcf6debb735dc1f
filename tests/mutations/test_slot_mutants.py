"""Slots in memory that calls share, or do not share: such plans go wrong beyond the first call, and are refused."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from dmc.errors import DmcError, ProofError
from dmc.program import Job, Slot, Space, spaces_of
from dmc.proof import verify
from tests.mutations.accepted import Outcome, calls_of
from tests.mutations.edits import on_all
from tests.mutations.of_slots import moved_slot
from tests.random_jobs import random_job

JOB = random_job(0)
ELSEWHERE = [
    (slot, space)
    for slot, space in product(JOB.classes[0].program.slots, get_args(Space))
    if space not in spaces_of(slot.role)
]


def _moved(slot: Slot, space: Space) -> Job:
    return on_all(JOB, lambda program: moved_slot(program, slot, space))


def _outcome(job: Job) -> Outcome | None:
    """What calls give; None where one of them fails."""
    try:
        return calls_of([JOB], [job])
    except DmcError:
        return None


def test_all_roles_are_moved() -> None:
    assert {slot.role for slot, _ in ELSEWHERE} == {"parameter", "batch", "output"}


@pytest.mark.parametrize(("slot", "space"), ELSEWHERE, ids=[f"{slot.name} in {space}" for slot, space in ELSEWHERE])
def test_a_slot_in_the_wrong_memory_is_refused(slot: Slot, space: Space) -> None:
    mutant = _moved(slot, space)
    with pytest.raises(ProofError, match=f"slot {slot.name}: V3: is of role {slot.role} and in {space} memory"):
        verify(mutant)
    # An output in memory for inputs is another matter: the host has no way to read there.
    if (slot.role, space) != ("output", "staged"):
        assert _outcome(mutant) != _outcome(JOB)


@pytest.mark.parametrize("space", get_args(Space))
def test_a_slot_in_any_memory_that_its_role_allows_computes_the_same(space: Space) -> None:
    for slot in (each for each in JOB.classes[0].program.slots if space in spaces_of(each.role)):
        assert _outcome(_moved(slot, space)) == _outcome(JOB)
