"""The buffers of a memory space that hold values at one moment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from dmc.program import Buffer, Range

NOBODY = -1


class LiveBuffers:
    """Non-overlapping buffers, by number. All operations take logarithmic time, plus the size of what they list."""

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self._buffers = buffers
        self._entries: list[tuple[int, int]] = []

    def parts(self, touched: Range) -> list[tuple[int, int, int]]:
        """The owners of the bytes of `touched`: first byte, end, and the buffer, or `NOBODY`."""
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
        """Adds a buffer, unless it overlaps another: then returns that one, else `NOBODY`."""
        wanted = self._buffers[number].range
        at = bisect_left(self._entries, (wanted.offset, number))
        for _, other in self._entries[max(at - 1, 0) : at + 1]:
            if self._buffers[other].range.overlaps(wanted):
                return other
        insort(self._entries, (wanted.offset, number))
        return NOBODY

    def remove(self, number: int) -> None:
        """Removes a buffer."""
        del self._entries[bisect_left(self._entries, (self._buffers[number].range.offset, number))]
