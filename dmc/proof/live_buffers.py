"""The buffers of a memory space that hold values at one moment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from dmc.program import Buffer, Range

NOBODY = -1


class LiveBuffers:
    """Buffers, by number, of which no two have a byte in common. All that it does takes logarithmic time, but for
    what it lists."""

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self._buffers = buffers
        self._entries: list[tuple[int, int]] = []

    def parts(self, touched: Range) -> list[tuple[int, int, int]]:
        """What holds the bytes of `touched`: first byte, the first behind it, and the buffer, or `NOBODY`."""
        at = max(bisect_right(self._entries, (touched.offset, len(self._buffers))) - 1, 0)
        found: list[tuple[int, int, int]] = []
        end = touched.offset
        for offset, number in self._entries[at : bisect_left(self._entries, (touched.end, -1))]:
            behind = min(self._buffers[number].range.end, touched.end)
            if behind <= end:
                continue
            if offset > end:
                found.append((end, offset, NOBODY))
            found.append((max(offset, end), behind, number))
            end = behind
        if end < touched.end:
            found.append((end, touched.end, NOBODY))
        return found

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
