"""Values that stand for those of all ranks of a stage at once, as functions of a rank's coordinates within it.

Equal numbers are equal functions, so what is found for them holds on each rank, and is found once, however many ranks
there are. The opposite is not claimed: functions with different numbers may be equal, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from dmc.mesh import Mesh
from dmc.program.collectives import sizes
from dmc.program.dataflow import Body, Call, Choice, Local, Moved, Moving, Rows, Sent, Step
from dmc.proof.meaning import Held, Meaning, OnCall, delivered
from dmc.proof.values import Segment, Values

# The rank that values of any rank are filed under; those of a stage are under its first rank.
ANY = 0


class Unknown(Exception):
    """Of this nothing can be said for all ranks at once."""


class Family(Values):
    """Values of any rank of a mesh, which is that of one stage, and how they follow from those of other ranks.

    A value at other coordinates is ("at", value, coordinates); one that a rank's own index along axes decides is
    ("chosen", axes, values), with the place of each value as in a reduction.
    """

    def __init__(self, mesh: Mesh) -> None:
        super().__init__()
        self.mesh = mesh
        self._pinned: dict[tuple[int, tuple[tuple[str, int], ...]], int] = {}
        self._moved: dict[tuple[str, tuple[str, ...], int, Moving], int] = {}

    def at(self, value: int, coordinates: Mapping[str, int]) -> int:
        """The value that the rank has whose coordinates are a rank's own, except for these."""
        pins = tuple((axis, coordinates[axis]) for axis in self.mesh.axes if axis in coordinates)
        key = (value, tuple((axis, index) for axis, index in pins if axis in self.varies(value)))
        if not key[1]:
            return value
        if self.is_everywhere(value):
            return self._at((value, 0, 0), dict(key[1]))[0]
        if key not in self._pinned:
            segments = self.segments(value, self.size(value))
            self._pinned[key] = self.row(self._at(each, dict(key[1])) for each in segments)
        return self._pinned[key]

    def _at(self, segment: Segment, coordinates: Mapping[str, int]) -> Segment:
        whole, first, length = segment
        pins = {axis: index for axis, index in coordinates.items() if axis in self.varies(whole)}
        how = self.how(whole)
        if not pins:
            return segment
        if how[0] == "chosen" and pins.keys() >= {*how[1]}:
            chosen, distance = how[2][_index(self.mesh, how[1], pins)]
            place = 0 if distance is None else first + distance
            return self._at((chosen, place, length), pins)
        origin, known = (how[1], dict(how[2])) if how[0] == "at" else (whole, {})
        # What a value at coordinates does not vary along, they have fixed.
        every = tuple(sorted((known | pins).items()))
        along = self.varies(origin) - {axis for axis, _ in every}
        is_splat = self.is_everywhere(origin)
        return self.made(("at", origin, every), self.size(origin), is_splat, along=along), first, length

    def chosen(self, axes: Sequence[str], members: Sequence[int], size: int) -> int:
        """The one of the values that a rank's index in its group along `axes` names."""
        if all(each == members[0] for each in members):
            return members[0]
        order = tuple(axis for axis in self.mesh.axes if axis in axes)
        places = product(*(range(self.mesh.axis_size(axis)) for axis in order))
        members = [members[_index(self.mesh, axes, dict(zip(order, place, strict=True)))] for place in places]
        return self.row(self._choice(order, *each) for each in self.abreast(members, size))

    def _choice(self, axes: tuple[str, ...], wholes: list[tuple[int, int]], length: int) -> Segment:
        for axis in axes:
            inner = prod(self.mesh.axis_size(each) for each in axes[axes.index(axis) + 1 :])
            step, count = inner * self.mesh.axis_size(axis), len(wholes)
            firsts = [i for i in range(count) if i % step < inner]
            if all(wholes[i] == wholes[i - i % step + i % inner] for i in range(count)):
                return self._choice(tuple(each for each in axes if each != axis), [wholes[i] for i in firsts], length)
        if not axes:
            return *wholes[0], length
        return self.elementwise(("chosen", axes), wholes, length, axes)

    def moved(self, kind: str, axes: Sequence[str], value: int, how: Moving) -> int:
        """What a rank receives in a movement of its group along `axes`, in which it sends `value`."""
        key = (kind, tuple(axes), value, how)
        if not {*axes} <= {*self.mesh.axes}:
            raise Unknown
        if key not in self._moved:
            places = [dict(zip(axes, place, strict=True)) for place in product(*map(self._range, axes))]
            results = delivered(self, kind, [self.at(value, place) for place in places], how)
            self._moved[key] = self.chosen(axes, results, sizes(kind, len(places), how.size)[1] or 0)
        return self._moved[key]

    def _range(self, axis: str) -> range:
        return range(self.mesh.axis_size(axis))


def _index(mesh: Mesh, axes: Sequence[str], coordinates: Mapping[str, int]) -> int:
    index = 0
    for axis in axes:
        index = index * mesh.axis_size(axis) + coordinates[axis]
    return index


@dataclass
class AnyRank(Meaning):
    """The meaning of steps for any rank, or of stages for any rank of each. Raises Unknown where ranks of one stage
    differ in more than slices of values."""

    @property
    def family(self) -> Family:
        """The values."""
        assert isinstance(self.values, Family), "values of any rank are a family"
        return self.values

    def ranks_of(self, step: Step) -> Sequence[int]:
        """All, as one; of a stage its first."""
        first = min(step.ranks, default=ANY)
        if step.ranks and {*step.ranks} != {*self.mesh.group(first, self.family.mesh.axes)}:
            raise Unknown
        return (first,)

    def without_stages(self, rank: int) -> int:
        """Values without stages are those of any rank of any stage."""
        return ANY

    def reader(self, message: Sent, rank: int) -> int:
        """The first rank of a stage sends to the first one of another, as each rank does to its like."""
        if not {*message.axes} <= {*self.stages}:
            raise Unknown
        return super().reader(message, rank)

    def argument(self, name: str, rank: int, size: int) -> int:
        """An argument differs on each rank of a stage; what several stages have, they have alike."""
        return self.values.made(("argument", name, ANY), size, along=self.family.mesh.axes)

    def _on_rank(self, node: Local | Choice, rank: int, own: Held, on_call: OnCall | None) -> None:
        if not isinstance(node, Choice):
            super()._on_rank(node, rank, own, on_call)
            return
        first = node.choices[0]
        calls = [each for each in node.choices if isinstance(each, Call)]
        if not isinstance(first, Call):
            own.extend(self._chosen(node.axes, node.choices, own))
            return
        if any(each.operands != first.operands for each in calls):
            raise Unknown
        operands = tuple(own[i] for i in first.operands)
        results = self._variants(node.axes, [self.functions[each.function] for each in calls], operands)
        if on_call is not None:
            on_call(node, rank, operands, results)
        own.extend(results)

    def _variants(self, axes: Sequence[str], bodies: Sequence[Body], operands: tuple[int, ...]) -> tuple[int, ...]:
        """The results of functions that differ in the slices that they take of values."""
        first = bodies[0]
        if any((len(each.nodes), each.results) != (len(first.nodes), first.results) for each in bodies):
            raise Unknown
        held = list(operands)
        for nodes in zip(*(each.nodes for each in bodies), strict=True):
            if isinstance(nodes[0], Moved | Choice):
                raise Unknown
            held.extend(self._chosen(axes, nodes, held))
        return tuple(held[i] for i in first.results)

    def _chosen(self, axes: Sequence[str], nodes: Sequence[Local], own: Held) -> tuple[int, ...]:
        if all(node == nodes[0] for node in nodes):
            return self.of_local(nodes[0], own)
        if not {*axes} <= {*self.family.mesh.axes}:
            raise Unknown
        size = 0
        members: list[int] = []
        for node in nodes:
            if not isinstance(node, Rows):
                raise Unknown
            members += self.of_local(node, own)
            size = sum(length for *_, length in node.pieces)
        return (self.family.chosen(axes, members, size),)

    def _move(self, node: Moved, held: Mapping[int, Held]) -> None:
        (own,) = held.values()
        own.append(self.family.moved(node.kind, node.axes, own[node.operand], node.how))
