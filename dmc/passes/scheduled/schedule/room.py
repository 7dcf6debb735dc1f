"""The memory in use along an order, while it changes."""

from __future__ import annotations

from collections.abc import Sequence


class Room:
    """Bytes in use at places 0 … n - 1: range additions and range maxima, each in logarithmic time.

    A segment tree; a node's `_added` applies to its whole range. Ranges are half-open.
    """

    def __init__(self, used: Sequence[int]) -> None:
        self._size = 1 << max(0, (len(used) - 1).bit_length())
        self._added = [0] * (2 * self._size)
        self._highest = [0] * self._size + list(used) + [0] * (self._size - len(used))
        for node in range(self._size - 1, 0, -1):
            self._highest[node] = max(self._highest[2 * node], self._highest[2 * node + 1])

    def add(self, first: int, end: int, bytes: int) -> None:
        """Adds bytes at the places from `first` to before `end`."""
        end = min(end, self._size)
        if first < end:
            self._add(1, 0, self._size, first, end, bytes)

    def highest(self, first: int, end: int) -> int:
        """The largest use in a range; 0 for an empty one."""
        end = min(end, self._size)
        return self._query(1, 0, self._size, first, end) if first < end else 0

    def last_above(self, first: int, end: int, limit: int) -> int | None:
        """The last place of a range at which more than `limit` is in use, or None."""
        return self._search(1, 0, self._size, first, end, limit, (1, 0))

    def first_above(self, first: int, end: int, limit: int) -> int | None:
        """The first place of a range at which more than `limit` is in use, or None."""
        return self._search(1, 0, self._size, first, end, limit, (0, 1))

    def _add(self, node: int, low: int, high: int, first: int, end: int, bytes: int) -> None:
        """Adds to the part of a range, which is not empty, that is below a node."""
        if first <= low and high <= end:
            self._added[node] += bytes
            self._highest[node] += bytes
            return
        middle, left, right = (low + high) // 2, 2 * node, 2 * node + 1
        if first < middle:
            self._add(left, low, middle, first, end, bytes)
        if end > middle:
            self._add(right, middle, high, first, end, bytes)
        self._highest[node] = max(self._highest[left], self._highest[right]) + self._added[node]

    def _query(self, node: int, low: int, high: int, first: int, end: int) -> int:
        """The largest use in the part of a range, which is not empty, that is below a node; 0 if all is less."""
        if first <= low and high <= end:
            return self._highest[node]
        middle = (low + high) // 2
        left = self._query(2 * node, low, middle, first, end) if first < middle else 0
        right = self._query(2 * node + 1, middle, high, first, end) if end > middle else 0
        return max(left, right) + self._added[node]

    def _search(
        self, node: int, low: int, high: int, first: int, end: int, limit: int, turns: tuple[int, int]
    ) -> int | None:
        if end <= low or high <= first or self._highest[node] <= limit:
            return None
        if high - low == 1:
            return low
        middle = (low + high) // 2
        halves = ((2 * node, low, middle), (2 * node + 1, middle, high))
        for turn in turns:
            found = self._search(*halves[turn], first, end, limit - self._added[node], turns)
            if found is not None:
                return found
        return None
