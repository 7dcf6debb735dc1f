"""The kernels that a piece of a step may be made of."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dmc.analysis.kernels.fusion.greedy import Merging
from dmc.analysis.kernels.fusion.rules import Rules
from dmc.analysis.kernels.groups import Group
from dmc.analysis.kernels.shapes import Loops

# Of the candidates of each size, so many that save the most are fused further, each with so many others.
_KEPT, _PARTNERS = 64, 256


@dataclass(frozen=True)
class Ties:
    """How a candidate is related to others, as bits of atoms, and in `waits` of movements.

    after: what reads its results. apart: what of that may not be fused with it. near: what reads or writes what it
    reads or writes. reached: where paths from it lead. outside: where paths lead whose second node is in no atom.
    """

    after: int
    apart: int
    near: int
    reached: int
    outside: int
    waits: int

    def with_(self, other: Ties) -> Ties:
        """Those of a fusion."""
        return Ties(
            self.after | other.after,
            self.apart | other.apart,
            self.near | other.near,
            self.reached | other.reached,
            self.outside | other.outside,
            self.waits | other.waits,
        )


@dataclass(frozen=True)
class Needs:
    """Who reads a value, as bits of atoms. readers: one more bit stands for all others, and for the step's results.
    turned: in another order. summing: those that add up over columns. waits: the movements that all others wait for."""

    readers: int
    turned: int
    summing: int
    waits: int


class Candidates(Rules):
    """The kernels that a piece may be made of, with everything else apart.

    A candidate is a set of atoms: its number is the sum of their bits, in a topological order. is_complete: whether all
    are here.
    """

    def __init__(
        self, merging: Merging, atoms: Sequence[Ties], groups: Sequence[Group], needs: Mapping[int, Needs]
    ) -> None:
        super().__init__(merging.graph, (), merging.most_values, merging.own)
        self.functions, self.values, self.turning = merging.functions, merging.values, merging.turning
        self.joined = merging.joined
        self.atoms, self.needs, self.is_complete = atoms, needs, True
        self.groups: dict[int, Group] = {1 << i: group for i, group in enumerate(groups)}
        self.ties: dict[int, Ties] = {1 << i: ties for i, ties in enumerate(atoms)}
        self._apart = {each: self.bytes_of(each) for each in self.groups}

    def bytes_of(self, candidate: int) -> int:
        """The bytes through device memory."""
        group, bytes_ = self.groups[candidate], self.values.bytes
        return sum(map(bytes_.__getitem__, group.reads)) + sum(map(bytes_.__getitem__, group.writes))

    def add(self, candidate: int, loops: Loops | None) -> None:
        """Adds a kernel that is known to be possible, with these loops."""
        if candidate in self.groups:
            return
        places = [i for i in range(len(self.atoms)) if candidate >> i & 1]
        apart = [self.groups[1 << i] for i in places]
        made = {value for each in apart for value in each.writes}
        reads = {value for each in apart for value in each.reads} - made
        writes = {value for value in made if self.is_wanted(value, candidate, candidate)}
        in_loops = {value for each in apart for value in each.in_loops} & reads
        members = [member for each in apart for member in each.members]
        self.groups[candidate] = Group(members, loops, reads, writes, in_loops, self.values.elements)
        self.ties[candidate] = functools.reduce(Ties.with_, (self.atoms[i] for i in places))

    def grow(self, launch: float) -> None:
        """Adds the fusions of two candidates, from the smallest, and keeps those that save the most.

        launch: what a launch costs, in bytes.
        """
        count = len(self.atoms)
        found: list[list[int]] = [[] for _ in range(count + 1)]
        for each in self.groups:
            found[each.bit_count()].append(each)
        partners: list[int] = []
        for level in found:
            given = {each: self.gain(each, launch) for each in level}
            level.sort(key=lambda each: (-given[each], each))
            self.is_complete = self.is_complete and len(level) <= _KEPT
            kept = level[:_KEPT]
            partners += kept
            self.is_complete = self.is_complete and len(partners) <= _PARTNERS
            for fused in filter(None, itertools.starmap(self._fused, itertools.product(kept, partners[:_PARTNERS]))):
                found[fused.bit_count()].append(fused)

    def gain(self, candidate: int, launch: float) -> float:
        """What is saved, in bytes, by one kernel for these atoms."""
        apart = [1 << i for i in range(len(self.atoms)) if candidate >> i & 1]
        return sum(map(self._apart.__getitem__, apart)) - self.bytes_of(candidate) + launch * (len(apart) - 1)

    def _fused(self, one: int, other: int) -> int:
        """The fusion of two candidates, which is now among them; 0 if it was, or is not possible."""
        fused = one | other
        if one & other or not self.ties[one].near & other or fused in self.groups:
            return 0
        first, second = self._in_order(one, other)
        ties = self.ties[one].with_(self.ties[other])
        if not self._is_convex(fused, ties) or not self.saved(first, second) or self.why_not(first, second):
            return 0
        made, late = self.groups[first], self.groups[second]
        assert made.loops is not None and late.loops is not None
        loops = self.joined(made.loops, late.loops)
        assert isinstance(loops, Loops)
        reads, writes = self.traded(first, second)
        in_loops = (made.in_loops | late.in_loops) & reads
        self.groups[fused] = Group([*made.members, *late.members], loops, reads, writes, in_loops, made.elements)
        self.ties[fused] = ties
        return fused

    def _in_order(self, one: int, other: int) -> tuple[int, int]:
        if self.is_next(one, other):
            return one, other
        if self.is_next(other, one) or other & -other < one & -one:
            return other, one
        return one, other

    def _is_convex(self, candidate: int, ties: Ties) -> bool:
        """Whether no path leaves it and comes back."""
        back, left = ties.outside, ties.after & ~candidate
        while left:
            lowest = left & -left
            back |= self.ties[lowest].reached
            left ^= lowest
        return not back & candidate

    def kept_apart(self, first: int, second: int) -> str:
        return "apart" if self.ties[first].apart & second else ""

    def is_next(self, first: int, second: int) -> bool:
        return bool(self.ties[first].after & second)

    def is_wanted(self, value: int, first: int, second: int) -> bool:
        return bool(self.needs[value].readers & ~(first | second))

    def is_turned(self, value: int, reader: int) -> bool:
        return bool(self.needs[value].turned & reader)

    def delays(self, early: int, late: int) -> bool:
        waits = self.ties[late].waits
        if not waits & ~self.ties[early].waits:
            return False
        return any(waits & ~each for each in self._waiting(self.groups[early].writes, early | late))

    def _waiting(self, values: Iterable[int], but: int) -> Iterable[int]:
        for value in sorted(values):
            needs = self.needs[value]
            yield needs.waits
            yield from (ties.waits for i, ties in enumerate(self.atoms) if needs.readers & ~but & 1 << i)

    def is_summed_over_columns(self, epilogue: int) -> bool:
        return any(self.needs[value].summing & ~epilogue for value in self.groups[epilogue].writes)
