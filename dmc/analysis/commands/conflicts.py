"""Earlier commands that conflict with a command, so that it must come after them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dmc.program import Range

# A command by its lane and its index on it.
Place = tuple[int, int]


@dataclass
class _Segment:
    """Bytes [start, end) with the same history: their last writer and the readers since, at most one per lane."""

    start: int
    end: int
    writer: Place | None = None
    readers: dict[int, int] = field(default_factory=dict)

    def part(self, start: int, end: int) -> _Segment:
        """The same history, for a subrange."""
        return _Segment(start, end, self.writer, dict(self.readers))


class Memory:
    """The last accesses to every byte of one memory space; an access takes time linear in the segments it overlaps."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._segments: list[_Segment] = []

    def read(self, where: Range, by: Place) -> Iterator[Place]:
        """Records a read; yields the writes that it must come after."""
        for segment in self._cut(where):
            if segment.writer is not None:
                yield segment.writer
            segment.readers[by[0]] = by[1]

    def write(self, where: Range, by: Place) -> Iterator[Place]:
        """Records a write; yields the accesses that it must come after."""
        touched = self._cut(where)
        for segment in touched:
            # Readers have already waited for the writer.
            yield from segment.readers.items()
            if not segment.readers and segment.writer is not None:
                yield segment.writer
        first = bisect_left(self._starts, where.offset)
        self._segments[first : first + len(touched)] = [_Segment(where.offset, where.end, by)]
        self._starts[first : first + len(touched)] = [where.offset]

    def _cut(self, where: Range) -> Sequence[_Segment]:
        """The segments that make up exactly `where`, after splitting those at its ends and filling gaps."""
        first = max(bisect_right(self._starts, where.offset) - 1, 0)
        last = bisect_left(self._starts, where.end)
        pieces: list[_Segment] = []
        inside: list[_Segment] = []
        at = where.offset
        for old in self._segments[first:last]:
            if old.end <= where.offset:
                pieces.append(old)
                continue
            if old.start < where.offset:
                pieces.append(old.part(old.start, where.offset))
            if at < old.start:
                inside.append(_Segment(at, old.start))
            inside.append(old.part(max(old.start, where.offset), min(old.end, where.end)))
            at = inside[-1].end
        if at < where.end:
            inside.append(_Segment(at, where.end))
        rest = [old.part(where.end, old.end) for old in self._segments[first:last] if old.end > where.end]
        pieces += [*inside, *rest]
        self._segments[first:last] = pieces
        self._starts[first:last] = [piece.start for piece in pieces]
        return inside
