"""Mutations of the slots that the host knows, on all ranks alike."""

from __future__ import annotations

from random import Random
from typing import get_args

from dmc.program import Command, Job, Move, Program, Range, Slot, Space, spaces_of
from dmc.program.program import aligned
from tests.mutations.edits import on_all, replace, with_ranges
from tests.mutations.mutators import mutator


@mutator("V3")
def keep_a_slot_in_other_memory(job: Job, random: Random) -> Job | None:
    """A slot, and all that touches it, is in memory that calls share, or do not share, as its role forbids."""
    slot = random.choice(job.classes[0].program.slots)
    space = random.choice([each for each in get_args(Space) if each not in spaces_of(slot.role)])
    return on_all(job, lambda program: moved_slot(program, slot, space))


@mutator("V3")
def give_a_slot_another_role(job: Job, random: Random) -> Job | None:
    """What a slot is to the host does not fit where it is, or is nothing."""
    slot = random.choice(job.classes[0].program.slots)
    roles = ("parameter", "counter", "batch", "output", "nonsense")
    role = random.choice([role for role in roles if slot.range.space not in spaces_of(role)])
    return on_all(job, lambda program: _with_slot(program, slot, replace(slot, role=role)))


@mutator("V3")
def name_a_slot_like_another(job: Job, random: Random) -> Job | None:
    """The host cannot tell two slots apart."""
    one, other = random.sample(job.classes[0].program.slots, 2)
    return on_all(job, lambda program: _with_slot(program, one, replace(one, name=other.name)))


def moved_slot(program: Program, slot: Slot, space: Space) -> Program:
    """The program with a slot behind all else in another memory. What copies to or from it runs on the compute lane."""
    target = Range(space, program.arenas.get(space, 0), slot.range.length)

    def place(each: Range) -> Range:
        return target if each == slot.range else each

    def change(command: Command) -> Command:
        moved = with_ranges(command, place)
        return replace(moved, lane=0) if isinstance(moved, Move) and moved != command else moved

    changed = _with_slot(program, slot, replace(slot, range=target))
    return replace(
        changed,
        arenas={**program.arenas, space: aligned(target.end)},
        commands=tuple(map(change, program.commands)),
        buffers=tuple(replace(each, range=place(each.range)) for each in program.buffers),
    )


def _with_slot(program: Program, old: Slot, new: Slot) -> Program:
    return replace(program, slots=tuple(new if each == old else each for each in program.slots))
