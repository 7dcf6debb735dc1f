"""Operations that share a kernel, as they are merged, and those that are not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from dmc.analysis.kernels.shapes import Loops
from dmc.kernels.row_sums import is_across

# A kernel over so many elements takes hardly longer than its launch.
_SMALL = 1 << 14


@dataclass(frozen=True)
class Refusal:
    """Two kernels, by one operation of each, that are not fused, the bytes that fusion would save, and why."""

    first: int
    second: int
    bytes: int
    why: str


@dataclass
class Group:
    """members: numbers of operations. reads, writes: operands and results in memory, by number (`Traded`). in_loops:
    what is read other than as a factor of a product. elements: of each value."""

    members: list[int]
    loops: Loops | None
    reads: set[int]
    writes: set[int]
    in_loops: set[int]
    elements: Sequence[int]

    def is_quick(self) -> bool:
        """Whether it takes no longer than its launch."""
        return self.loops is not None and not self.loops.product and prod(self.loops.over) <= _SMALL

    def is_like(self, other: Group) -> bool:
        """Whether both iterate in the same loops, without products, over a tensor that both read."""
        if self.loops is None or other.loops is None or self.loops.product:
            return False
        return self.loops.over == other.loops.over and self._shares(other)

    def is_beside(self, other: Group, own: bool) -> bool:
        """Whether two independent kernels iterate over one tensor in the same loops. own: see `Loops.joined`."""
        pairs = ((self, other), (other, self))
        if own and any(one.is_across(another) or one.may_join(another) for one, another in pairs):
            return True
        return self.is_like(other)

    def is_across(self, other: Group) -> bool:
        """Whether one reduces the rows of a tensor that both read, and the other adds up its columns."""
        if self.loops is None or other.loops is None or not (self.loops.rows and other.loops.columns):
            return False
        if other.loops.inner:
            return False
        return is_across(self.loops.rows, other.loops.columns) and self._shares(other)

    def may_join(self, other: Group) -> bool:
        """Whether its elements may be computed where a reduction or the epilogue of a product reads the same ones."""
        if self.loops is None or other.loops is None or not self.loops.is_elementwise:
            return False
        return not other.loops.is_elementwise and self._shares(other)

    def _shares(self, other: Group) -> bool:
        """Whether both read a tensor with an element for each iteration."""
        assert self.loops is not None
        size = prod(self.loops.over)
        return any(self.elements[value] == size > 1 for value in self.in_loops & other.in_loops)

    def sums_columns(self) -> bool:
        """Whether it adds up over other dimensions than the last."""
        return self.loops is not None and self.loops.columns is not None


def why_not_summed(loops: Loops, one: Group, other: Group, functions: Collection[int], writes: Collection[int]) -> str:
    """Why two kernels cannot be fused to one with these loops, as far as its sums over columns are concerned.

    Sums over the rows of a product may join it together with a function of it that is what they add up; sums over rows
    that are reduced, where nothing but what has an element for each of them depends on them. functions: the operations
    that compute one. writes: what both kernels write together; the product is not among it. other: behind `one`.
    """
    assert one.loops is not None and other.loops is not None
    if loops.sums_rows and not (one.loops.sums_rows or other.loops.sums_rows):
        between = one.writes & other.reads
        has_function = any(each in functions for each in other.members)
        if not (one.loops.product and has_function and between and between.isdisjoint(writes)):
            return "a product and a reduction"
    if loops.sums_own_rows and one.loops.columns:
        reads_sums = any(one.elements[value] == one.loops.columns[0] for value in one.writes & other.reads)
        is_small = other.loops.is_elementwise and max(other.loops.sizes) == one.loops.columns[0]
        if reads_sums and not is_small:
            return "rows that depend on sums over all of them"
    return ""
