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
        if first >= end:
            return
        added, highest = self._added, self._highest
        left, right = first + self._size, end + self._size
        low, high = left >> 1, (right - 1) >> 1
        while left < right:
            # A node that the range covers, with none above it that it covers, too.
            if left & 1:
                added[left] += bytes
                highest[left] += bytes
                left += 1
            if right & 1:
                right -= 1
                added[right] += bytes
                highest[right] += bytes
            left, right = left >> 1, right >> 1
        while low:
            for node in (low, high) if low != high else (low,):
                highest[node] = max(highest[2 * node], highest[2 * node + 1]) + added[node]
            low, high = low >> 1, high >> 1

    def highest(self, first: int, end: int) -> int:
        """The largest use in a range; 0 for an empty one."""
        end = min(end, self._size)
        if first >= end:
            return 0
        added, highest = self._added, self._highest
        low, high = first + self._size, end - 1 + self._size
        left, right = highest[low], highest[high]
        # The largest below a node, as far as it is in the range: up from both ends, then from where they meet.
        while low >> 1 != high >> 1:
            left = max(left, 0 if low & 1 else highest[low + 1]) + added[low >> 1]
            right = max(right, highest[high - 1] if high & 1 else 0) + added[high >> 1]
            low, high = low >> 1, high >> 1
        found = max(left, right)
        if low != high:
            low >>= 1
            found += added[low]
        while low > 1:
            low >>= 1
            found = max(found, 0) + added[low]
        return found

    def last_above(self, first: int, end: int, limit: int) -> int | None:
        """The last place of a range at which more than `limit` is in use, or None."""
        return self._search(1, 0, self._size, first, end, limit, (1, 0))

    def first_above(self, first: int, end: int, limit: int) -> int | None:
        """The first place of a range at which more than `limit` is in use, or None."""
        return self._search(1, 0, self._size, first, end, limit, (0, 1))

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
