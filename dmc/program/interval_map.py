"""What is known of every byte of an arena."""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

from dmc.program.program import Range

Value = TypeVar("Value")


class IntervalMap(Generic[Value]):
    """A value for every byte from 0 on, kept as intervals of equal value.

    An access costs the logarithm of their number, plus the number of those that it meets; a write leaves one.
    """

    def __init__(self, initial: Value) -> None:
        self._starts = [0]
        self._values = [initial]

    def get(self, where: Range) -> list[Value]:
        """The values of the intervals that make up exactly `where`."""
        first, last = self._cut(where.offset), self._cut(where.end)
        return self._values[first:last]

    def pieces(self, where: Range) -> list[tuple[int, int, Value]]:
        """The same with the first byte of each interval and the first behind it."""
        first, last = self._cut(where.offset), self._cut(where.end)
        starts = self._starts[first:last]
        return list(zip(starts, [*starts[1:], where.end], self._values[first:last], strict=True))

    def set(self, where: Range, values: list[Value]) -> None:
        """Gives `where` one value, or as many as `get` gave."""
        first, last = self._cut(where.offset), self._cut(where.end)
        if len(values) == 1:
            self._starts[first:last] = [where.offset]
        self._values[first:last] = values

    def _cut(self, offset: int) -> int:
        """The number of the interval that begins at `offset`, where one is made to begin."""
        at = bisect_right(self._starts, offset) - 1
        if self._starts[at] == offset:
            return at
        self._starts.insert(at + 1, offset)
        self._values.insert(at + 1, self._values[at])
        return at + 1
