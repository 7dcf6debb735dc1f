"""Value numbering: values computed in the same way from the same values have one number, wherever they are in memory.

A number stands either for an opaque *whole*, identified by how it was computed, or for a row of consecutive segments of
wholes. No segment of a row is a row, and no segment continues the one before it, so equal rows have one number
(hash-consing).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

# A whole, its first byte, and its length.
Segment = tuple[int, int, int]


class Values:
    """All values of a job and of its reference."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._how: list[Hashable] = []
        self._sizes: list[int] = []
        self._everywhere: set[int] = set()
        self._rows: dict[int, tuple[Segment, ...]] = {}
        self._ends: dict[int, list[int]] = {}
        self._parts: dict[Segment, int] = {}
        self._varies: dict[int, frozenset[str]] = {}
        self.unwritten = self.made(("unwritten",), 0, everywhere=True)

    def made(
        self, how: Hashable, size: int, everywhere: bool = False, of: Iterable[int] = (), along: Iterable[str] = ()
    ) -> int:
        """A value computed this way, of a size in bytes, or a splat. An empty value is always the same.

        Where values stand for those of any rank: of: the values that it is computed from. along: the axes along which
        it varies besides.
        """
        if not size and not everywhere:
            how = ("nothing",)
        number = self._numbers.get(how)
        if number is None:
            number = self._numbers[how] = len(self._how)
            self._how.append(how)
            self._sizes.append(size)
            if everywhere:
                self._everywhere.add(number)
            if varies := frozenset(along).union(*(self._varies.get(each, ()) for each in of)):
                self._varies[number] = varies
        return number

    def varies(self, value: int) -> frozenset[str]:
        """The axes along which the ranks' values may differ."""
        return self._varies.get(value, frozenset())

    def size(self, value: int) -> int:
        """The bytes of a value that is no splat."""
        return self._sizes[value]

    def how(self, value: int) -> Any:
        """How a value is computed, as given to `made`."""
        return self._how[value]

    def is_everywhere(self, value: int) -> bool:
        """Whether the value is a splat."""
        return value in self._everywhere

    def segments(self, value: int, size: int) -> Sequence[Segment]:
        """The segments of a value of this size."""
        return self._rows.get(value) or ((value, 0, size),)

    def row(self, pieces: Iterable[Segment]) -> int:
        """Pieces of values, concatenated."""
        found: list[Segment] = []
        for value, first, length in (segment for piece in pieces for segment in self._cut(*piece)):
            if found and found[-1][0] == value and (value in self._everywhere or first == sum(found[-1][1:])):
                found[-1] = (value, found[-1][1], found[-1][2] + length)
            elif length:
                found.append((value, first, length))
        if len(found) == 1 and self._is_whole(found[0]):
            return found[0][0]
        number = self.made(("row", tuple(found)), sum(length for *_, length in found), of=[each[0] for each in found])
        self._rows[number] = tuple(found)
        return number

    def part(self, value: int, first: int, length: int) -> int:
        """A range of bytes of a value."""
        if self._is_whole((value, first, length)):
            return value
        key = (value, first, length)
        if key not in self._parts:
            self._parts[key] = self.row([key])
        return self._parts[key]

    def is_written_as(self, found: int, wanted: int, size: int) -> bool:
        """Whether a value of so many bytes is `wanted`, of which bytes that nobody has written may be any."""
        if found == wanted:
            return True
        place = 0
        for segment in self.segments(wanted, size):
            if segment[0] != self.unwritten and self.part(found, place, segment[2]) != self.part(*segment):
                return False
            place += segment[2]
        return True

    def reduced(self, members: Sequence[int], how: tuple[str, ...], size: int) -> int:
        """The members' values, all of the same size, reduced elementwise in order.

        A row of reductions is the reduction of rows, so a bucketed reduction equals separate ones.
        """
        return self.row(self._reduced(wholes, how, length) for wholes, length in self.abreast(members, size))

    def abreast(self, members: Sequence[int], size: int) -> Iterator[tuple[list[tuple[int, int]], int]]:
        """Values of one size side by side, cut wherever one of them is: of each the whole and the first byte in it; and
        the length."""
        rows = [self.segments(value, size) for value in members]
        ends = sorted({end for row in rows for end in accumulate(length for *_, length in row)})
        at = [0] * len(rows)
        begins = [0] * len(rows)
        start = 0
        for end in ends:
            wholes: list[tuple[int, int]] = []
            for i, row in enumerate(rows):
                while begins[i] + row[at[i]][2] <= start:
                    begins[i] += row[at[i]][2]
                    at[i] += 1
                wholes.append((row[at[i]][0], row[at[i]][1] + start - begins[i]))
            yield wholes, end - start
            start = end

    def _reduced(self, wholes: Sequence[tuple[int, int]], how: tuple[str, ...], length: int) -> Segment:
        if all(whole == self.unwritten for whole, _ in wholes):
            return self.unwritten, 0, length
        return self.elementwise(("reduced", how), wholes, length)

    def elementwise(
        self, how: tuple[Hashable, ...], wholes: Sequence[tuple[int, int]], length: int, along: Iterable[str] = ()
    ) -> Segment:
        """What is computed element by element, from bytes side by side in wholes."""
        placed = [(whole, first) for whole, first in wholes if whole not in self._everywhere]
        leader, base = placed[0] if placed else (self.unwritten, 0)
        # If the members' elements are strided in their wholes, so are the result's.
        apart = tuple((whole, None if whole in self._everywhere else first - base) for whole, first in wholes)
        of, is_splat = [whole for whole, _ in wholes], not placed
        return self.made((*how, apart), self._sizes[leader], is_splat, of, along), base, length

    def _is_whole(self, piece: Segment) -> bool:
        value, first, length = piece
        return value in self._everywhere or (first == 0 and length == self._sizes[value])

    def _cut(self, value: int, first: int, length: int) -> Iterator[Segment]:
        """A piece of a value as segments of wholes."""
        row = self._rows.get(value)
        if row is None:
            yield value, 0 if value in self._everywhere else first, length
            return
        if value not in self._ends:
            self._ends[value] = list(accumulate(each for *_, each in row))
        ends, at = self._ends[value], bisect_right(self._ends[value], first)
        while length > 0 and at < len(row):
            whole, begin, full = row[at]
            skipped = first - (ends[at] - full)
            taken = min(full - skipped, length)
            yield whole, 0 if whole in self._everywhere else begin + skipped, taken
            first, length, at = first + taken, length - taken, at + 1
