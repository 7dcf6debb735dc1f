"""V3 for slots: each has room for its tensor, and lies where the executors keep tensors of its role."""

from __future__ import annotations

from itertools import pairwise

from dmc.errors import ProofError
from dmc.program import HOST_ROLES, KEPT, OUTPUT_ROLE, STAGED, STATE_ROLES, Program, Slot, spaces_of
from dmc.proof.extents import bytes_of, check_inside, check_unique


def check_slots(program: Program) -> None:
    """Raises ProofError for a slot without room for its tensor, in the wrong memory, or on another's bytes."""
    check_unique(f"rank {program.rank}", "slot", (slot.name for slot in program.slots))
    for slot in program.slots:
        place = f"rank {program.rank}, slot {slot.name}"
        check_inside(program, place, slot.range)
        if slot.range.length != bytes_of(place, slot.dtype, slot.shape):
            raise ProofError("V3", place, f"has {slot.range.length} bytes for {slot.shape} of {slot.dtype}")
        _check_space(place, slot)
    # Inputs from the host are in place before the first command, outputs after the last.
    _check_apart(program, "before the step", [slot for slot in program.slots if slot.role != OUTPUT_ROLE])
    _check_apart(program, "after the step", [slot for slot in program.slots if slot.role not in HOST_ROLES])


def _check_space(place: str, slot: Slot) -> None:
    allowed = spaces_of(slot.role)
    if not allowed:
        roles = ", ".join((*STATE_ROLES, *HOST_ROLES, OUTPUT_ROLE))
        raise ProofError("V3", place, f"has role '{slot.role}', which does not exist", f"roles are {roles}")
    if slot.range.space not in allowed:
        fact = f"is of role {slot.role} and in {slot.range.space} memory, {_why_not(slot)}"
        raise ProofError("V3", place, fact, f"put it into {' or '.join(allowed)} memory")


def _why_not(slot: Slot) -> str:
    if slot.role in STATE_ROLES:
        return "of which each call in flight has its own: the next call would not find it"
    if slot.range.space == STAGED:
        return "which the host fills before a call and does not read after it"
    assert slot.range.space in KEPT, "what each call has of its own is for inputs and outputs"
    if slot.role in HOST_ROLES:
        return "which all calls share: the host would fill it while the call before still reads it"
    return "which all calls share: the next call would overwrite it before the host has read it"


def _check_apart(program: Program, when: str, slots: list[Slot]) -> None:
    ordered = sorted(slots, key=lambda slot: slot.range)
    for first, second in pairwise(ordered):
        if first.range.overlaps(second.range):
            fact = f"shares bytes with slot {second.name}, but both must hold their own value {when}"
            raise ProofError("V3", f"rank {program.rank}, slot {first.name}", fact)
