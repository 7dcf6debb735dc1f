"""Classes of ranks: those that run one program, and the differences between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import msgspec

from dmc.mesh import Mesh
from dmc.program.limits import MAX_RANKS, Count
from dmc.program.program import Await, Collective, Command, Launch, Move, Program, Range, Record, Slice, accesses

# The groups of a channel (by name) that a rank is in, in declared order.
Groups = Callable[[str, int], tuple[tuple[int, ...], ...]]


class Class(msgspec.Struct, frozen=True, array_like=True):
    """Ranks, in ascending order, that run one program; `program` is that of the first.

    A program says what differs on the others: `Launch.variants`, and the `slices` of commands. The members of a
    movement follow from the channel: each rank takes part in that of its own groups which has the same number as the
    first rank's. Messages have different programs at their ends, and so different classes.
    """

    ranks: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=MAX_RANKS)]
    program: Program


@dataclass(frozen=True)
class Member:
    """A rank of a class, whose first rank is `first`; `groups` are those of channels."""

    rank: int
    first: int
    mesh: Mesh
    groups: Groups

    def program(self, given: Program) -> Program:
        """What the rank runs where the first runs `given`; without slices and variants."""
        return msgspec.structs.replace(given, rank=self.rank, commands=tuple(map(self.command, given.commands)))

    def command(self, given: Command) -> Command:
        """Likewise."""
        if isinstance(given, Record | Await):
            return given
        given = _sliced(given, lambda each, read: moved(read, _distance(each, self._steps)))
        if isinstance(given, Launch) and given.variants is not None:
            chosen = given.variants.kernels[self.mesh.index_in_group(self.rank, given.variants.axes)]
            return msgspec.structs.replace(given, kernel=chosen, variants=None)
        if isinstance(given, Collective) and self.rank != self.first:
            mine, theirs = (self.groups(given.channel, rank) for rank in (self.first, self.rank))
            return msgspec.structs.replace(given, ranks=theirs[mine.index(given.ranks)])
        return given

    @cached_property
    def _steps(self) -> Mapping[str, int]:
        own, origin = (self.mesh.coordinates(rank) for rank in (self.rank, self.first))
        return {axis: own[axis] - origin[axis] for axis in own}


def covering(own: Class, mesh: Mesh) -> Program:
    """The class's program, whose reads cover those of all its ranks."""
    places = [mesh.coordinates(rank) for rank in own.ranks]
    origin = places[0]
    steps = [{axis: place[axis] - origin[axis] for axis in place} for place in places]

    def widened(each: Slice, read: Range) -> Range:
        distances = [_distance(each, step) for step in steps]
        first, last = min(distances), max(distances)
        return Range(read.space, read.offset + first, read.length + last - first)

    commands = (each if isinstance(each, Record | Await) else _sliced(each, widened) for each in own.program.commands)
    return msgspec.structs.replace(own.program, commands=tuple(commands))


def moved(where: Range, by: int) -> Range:
    """The range, so many bytes further on."""
    return Range(where.space, where.offset + by, where.length)


def _distance(each: Slice, steps: Mapping[str, int]) -> int:
    return sum(steps[axis] * stride for axis, stride in each.strides.items())


def _sliced(command: Launch | Move | Collective, change: Callable[[Slice, Range], Range]) -> Launch | Move | Collective:
    """The command without slices; `change` gives the range of each in their place."""
    if not command.slices:
        return command
    reads = list(accesses(command)[0])
    for each in command.slices:
        reads[each.read] = change(each, reads[each.read])
    if isinstance(command, Launch):
        return msgspec.structs.replace(command, reads=tuple(reads), slices=())
    return msgspec.structs.replace(command, source=reads[0], slices=())
