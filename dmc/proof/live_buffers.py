"""The buffers of a memory space that hold values at one moment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from dmc.program import Buffer, Range

NOBODY = -1


class LiveBuffers:
    """Buffers, by number, of which no two have a byte in common. All that it does takes logarithmic time."""

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self._buffers = buffers
        self._entries: list[tuple[int, int]] = []

    def holding(self, touched: Range) -> int:
        """The buffer with all bytes of `touched`, or `NOBODY`."""
        at = bisect_right(self._entries, (touched.offset, len(self._buffers))) - 1
        if at < 0:
            return NOBODY
        number = self._entries[at][1]
        return number if touched.end <= self._buffers[number].range.end else NOBODY

    def insert(self, number: int) -> int:
        """Adds a buffer, unless it overlaps one that is there: then it returns that one, else `NOBODY`."""
        wanted = self._buffers[number].range
        at = bisect_left(self._entries, (wanted.offset, number))
        for _, other in self._entries[max(at - 1, 0) : at + 1]:
            if self._buffers[other].range.overlaps(wanted):
                return other
        insort(self._entries, (wanted.offset, number))
        return NOBODY

    def remove(self, number: int) -> None:
        """Takes away a buffer that is there."""
        del self._entries[bisect_left(self._entries, (self._buffers[number].range.offset, number))]
