"""Tensors as rows of named elements: what a movement does to them, in a form in which equal tensors look equal.

Element k of a tensor, flat and row-major, is some element of an *atom*: of an argument, of a result of a kernel. A
reshape changes nothing, a bucket is a row of its members, and an all-reduce of a row is a row of all-reduces. So
`unpack(all_reduce(pack(x, y)))` and the all-reduces of x and y are the same rows, and so are
`all_gather(reduce_scatter(x))` and `all_reduce(x)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TypeAlias

Axes: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Atom:
    """What nothing is known of but how it came to be: `digest`. It is the same on all ranks of `invariant` groups.

    Of an atom that is `uniform` all elements are alike: a constant, or bytes that nobody has written.
    """

    digest: bytes
    invariant: frozenset[Axes] = frozenset()
    uniform: bool = False


@dataclass(frozen=True)
class Segment:
    """Elements [first, first + length) of an atom, further on by a stride times the rank's place in a group."""

    atom: Atom
    first: int
    length: int
    strides: tuple[tuple[Axes, int], ...] = ()


@dataclass(frozen=True)
class Row:
    """A tensor: its segments, none of which goes on where the one before it ends."""

    segments: tuple[Segment, ...]

    @property
    def length(self) -> int:
        """The number of elements."""
        return sum(segment.length for segment in self.segments)

    def digest(self) -> bytes:
        """A name for its content: equal rows have equal names."""
        return digest(*((s.atom.digest, s.first, s.length, s.strides) for s in self.segments))


def digest(*parts: object) -> bytes:
    """A hash of things whose `repr` says all of them."""
    return blake2b(repr(parts).encode(), digest_size=16).digest()


def whole(atom: Atom, length: int) -> Row:
    """All elements of an atom."""
    return Row((Segment(atom, 0, length),))


UNWRITTEN = Atom(digest("unwritten"), uniform=True)


def joined(rows: Iterable[Row]) -> Row:
    """One row behind the other."""
    found: list[Segment] = []
    for segment in (segment for row in rows for segment in row.segments):
        own = replace(segment, first=0, strides=()) if segment.atom.uniform else segment
        if found and _goes_on(found[-1], own):
            found[-1] = replace(found[-1], length=found[-1].length + own.length)
        else:
            found.append(own)
    return Row(tuple(found))


def _goes_on(one: Segment, other: Segment) -> bool:
    if one.atom != other.atom or one.strides != other.strides:
        return False
    return one.atom.uniform or one.first + one.length == other.first


def part(row: Row, first: int, length: int) -> Row:
    """Elements [first, first + length)."""
    found: list[Segment] = []
    for segment in row.segments:
        begin, end = max(first, 0), min(first + length, segment.length)
        if begin < end:
            found.append(replace(segment, first=segment.first + begin, length=end - begin))
        first -= segment.length
    return joined([Row(tuple(found))])


def placed(parts: Sequence[tuple[int, Row]], length: int) -> Row:
    """Rows at offsets of one of so many elements; nobody writes what is between them."""
    rows: list[Row] = []
    end = 0
    for offset, row in [*sorted(parts, key=lambda each: each[0]), (length, Row(()))]:
        if offset > end:
            rows.append(whole(UNWRITTEN, offset - end))
        rows.append(row)
        end = offset + row.length
    return joined(rows)


@dataclass
class Movements:
    """What collectives give. size: how many members a group along axes has."""

    size: Callable[[Axes], int]

    def reduced(self, row: Row, axes: Axes, how: object) -> Row:
        """An all-reduce; `how`: the reduction and the type in which it adds up."""
        return self._each(row, axes, ("all_reduce", axes, how), frozenset({axes}))

    def permuted(self, row: Row, axes: Axes, pairs: object) -> Row:
        """What arrives by a permutation."""
        return self._each(row, axes, ("permute", axes, pairs), frozenset())

    def own_piece(self, row: Row, axes: Axes) -> Row:
        """Of as many equal pieces as the group has members, the rank's own."""
        members = self.size(axes)
        length = row.length // members
        pieces = [part(row, index * length, length) for index in range(members)]
        segments: list[Segment] = []
        for alike in zip(*(piece.segments for piece in pieces), strict=False):
            stride = alike[1].first - alike[0].first if members > 1 else 0
            wanted = [replace(alike[0], first=alike[0].first + index * stride) for index in range(members)]
            if list(alike) != wanted:
                return self._opaque(("own piece", axes, [piece.digest() for piece in pieces]), length)
            segments.append(replace(alike[0], strides=_with_stride(alike[0].strides, axes, stride)))
        if any(len(piece.segments) != len(segments) for piece in pieces):
            return self._opaque(("own piece", axes, [piece.digest() for piece in pieces]), length)
        return joined([Row(tuple(segments))])

    def at(self, row: Row, axes: Axes, member: int) -> Row:
        """The row of another member of one's group."""
        segments: list[Segment] = []
        for segment in row.segments:
            strides = dict(segment.strides)
            first = segment.first + strides.pop(axes, 0) * member
            if any(set(axes) & set(other) for other in strides):
                return self._opaque(("at", axes, member, row.digest()), row.length)
            atom = segment.atom
            if not atom.uniform and axes not in atom.invariant:
                atom = Atom(digest("at", axes, member, atom.digest), frozenset({axes}))
            segments.append(Segment(atom, first, segment.length, tuple(sorted(strides.items()))))
        return joined([Row(tuple(segments))])

    def gathered(self, row: Row, axes: Axes) -> Row:
        """The rows of all members, one behind the other."""
        return joined(self.at(row, axes, member) for member in range(self.size(axes)))

    def exchanged(self, row: Row, axes: Axes) -> Row:
        """An all-to-all: from each member the piece that belongs to the rank."""
        theirs = (self.at(row, axes, member) for member in range(self.size(axes)))
        return joined(self.own_piece(each, axes) for each in theirs)

    def _each(self, row: Row, axes: Axes, how: object, invariant: frozenset[Axes]) -> Row:
        """A movement that does the same to each element, of atoms that do not depend on the place in the group."""
        if any(set(axes) & set(other) for segment in row.segments for other, _ in segment.strides):
            atom = Atom(digest(how, row.digest()), invariant)
            return whole(atom, row.length)
        moved = (
            # What a permutation brings is alike everywhere on one rank, but not on all.
            replace(segment, atom=_made(segment.atom, how, invariant))
            for segment in row.segments
        )
        return joined([Row(tuple(moved))])

    def _opaque(self, how: object, length: int) -> Row:
        return whole(Atom(digest(how)), length)


def _with_stride(strides: tuple[tuple[Axes, int], ...], axes: Axes, stride: int) -> tuple[tuple[Axes, int], ...]:
    total = dict(strides)
    total[axes] = total.get(axes, 0) + stride
    return tuple(sorted((each, by) for each, by in total.items() if by))


def _made(atom: Atom, how: object, invariant: frozenset[Axes]) -> Atom:
    return Atom(digest(how, atom.digest), invariant, bool(invariant) and atom.uniform)
