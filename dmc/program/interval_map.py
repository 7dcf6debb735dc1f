"""A map from the bytes of an arena to values."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

from dmc.program.program import Range

Value = TypeVar("Value")


class IntervalMap(Generic[Value]):
    """A value for every byte from 0 on, kept as intervals of equal value.

    An access takes logarithmic time in their number, plus the number that it overlaps; a write leaves one.
    """

    def __init__(self, initial: Value) -> None:
        self._starts = [0]
        self._values = [initial]

    def get(self, where: Range) -> list[Value]:
        """The values of the intervals that make up exactly `where`."""
        first, last = self._cut(where.offset), self._cut(where.end)
        return self._values[first:last]

    def pieces(self, where: Range) -> list[tuple[int, int, Value]]:
        """The same with the start and end of each interval."""
        first, last = self._cut(where.offset), self._cut(where.end)
        starts = self._starts[first:last]
        return list(zip(starts, [*starts[1:], where.end], self._values[first:last], strict=True))

    def set(self, where: Range, values: list[Value]) -> None:
        """Sets `where` to one value, or to as many as `get` returned."""
        first, last = self._cut(where.offset), self._cut(where.end)
        if len(values) == 1:
            self._starts[first:last] = [where.offset]
        self._values[first:last] = values

    def _cut(self, offset: int) -> int:
        """The index of the interval that begins at `offset`, after splitting if needed."""
        at = bisect_right(self._starts, offset) - 1
        if self._starts[at] == offset:
            return at
        self._starts.insert(at + 1, offset)
        self._values.insert(at + 1, self._values[at])
        return at + 1
