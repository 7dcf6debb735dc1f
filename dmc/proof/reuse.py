"""V7: bytes hold one value at a time, and readers find their own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping

from dmc.errors import ProofError
from dmc.program import ALIGNMENT, Await, Collective, Program, Range, Record, Slot, accesses, aligned
from dmc.program.interval_map import IntervalMap
from dmc.program.program import Space
from dmc.proof.live_buffers import NOBODY, LiveBuffers
from dmc.proof.story import told, where

# For each command: for each range that it reads, and each that it writes, the buffers there, by number.
Buffers = frozenset[int]
Owners = Mapping[int, tuple[tuple[Buffers, ...], tuple[Buffers, ...]]]

# Bytes [start, end), and their owner.
_Stretch = tuple[int, int, int]


def check_reuse(program: Program) -> Owners:
    """Raises ProofError unless each access is to the value that its buffer holds, in the order of issue.

    Overlapping buffers have disjoint live ranges; at one command the old may end and the new begin, as in an in-place
    kernel. Bytes read were written in the same buffer, or passed by the host: buffers of inputs are live from the first
    command, those of outputs to the last, those of state always. `check_races` checks that lanes respect the order of
    issue. Linear in commands and buffers, times a logarithm. Needs V3.
    """
    sweep = _Sweep(program)
    for index in range(len(program.commands)):
        sweep.step(index)
    sweep.finish()
    return sweep.owners


class _Sweep:
    """Goes through a program in the order of issue, with the live buffers and the owners of bytes' contents."""

    def __init__(self, program: Program) -> None:
        self.program, self.buffers = program, program.buffers
        work = [i for i, command in enumerate(program.commands) if not isinstance(command, Record | Await)]
        self.first, self.last = (work[0], work[-1]) if work else (0, 0)
        self.owners: dict[int, tuple[tuple[Buffers, ...], tuple[Buffers, ...]]] = {}
        self.live: defaultdict[Space, LiveBuffers] = defaultdict(lambda: LiveBuffers(program.buffers))
        self.content: defaultdict[Space, IntervalMap[int]] = defaultdict(lambda: IntervalMap(NOBODY))
        self.begin: defaultdict[int, list[int]] = defaultdict(list)
        self.end: defaultdict[int, list[int]] = defaultdict(list)
        given = self._give()
        for number, buffer in enumerate(self.buffers):
            # Memory changes only at work commands: from the first to the last that the buffer spans.
            first, behind = bisect_left(work, buffer.first), bisect_right(work, buffer.last)
            if first == behind and number not in given:
                continue
            if number not in given:
                self.begin[work[first]].append(number)
            self.end[work[max(behind - 1, 0)] if work else 0].append(number)

    def step(self, index: int) -> None:
        """Checks one command: its operands are there, and its writes begin or continue a value."""
        reads, writes = accesses(self.program.commands[index])
        read = tuple(self._read(index, touched) for touched in reads)
        before = [self.live[touched.space].parts(touched) for touched in writes]
        # A buffer that ends here may overlap one that begins.
        fresh = set(self.begin[index])
        self._close(number for number in self.end[index] if number not in fresh)
        for number in self.begin[index]:
            self._open(index, number)
        after = [self.live[touched.space].parts(touched) for touched in writes]
        written = tuple(
            self._write(index, touched, *parts) for touched, *parts in zip(writes, after, before, strict=True)
        )
        self.owners[index] = (read, written)
        self._close(number for number in self.end[index] if number in fresh)

    def finish(self) -> None:
        """Checks that state and outputs are there at the end."""
        for slot in self.program.slots:
            if slot.role in ("control", "batch"):
                continue
            for start, end, number in self.content[slot.range.space].pieces(slot.range):
                if number == NOBODY:
                    fact = f"nothing has written {told(_part(slot.range, start, end))} of it by the end of the step"
                    raise ProofError("V7", self._slot(slot), fact)
                if self.buffers[number].last < self.last:
                    fact = f"its last value, {self._tale(number)}, is not live to the end of the step"
                    raise ProofError("V7", self._slot(slot), fact)

    def _give(self) -> set[int]:
        """Fills the buffers of the host's inputs, each of which covers its slot; returns them."""
        given: set[int] = set()
        early = sorted(
            (buffer.range, number) for number, buffer in enumerate(self.buffers) if buffer.first <= self.first
        )
        for slot in self.program.slots:
            if slot.role == "output":
                continue
            at = bisect_right(early, (slot.range.space, slot.range.offset), key=_start) - 1
            number = early[at][1] if at >= 0 else NOBODY
            if number == NOBODY or not _holds(self.buffers[number].range, slot.range):
                fact = f"no buffer holds {told(slot.range)} from the beginning of the step"
                raise ProofError("V7", self._slot(slot), fact, "inputs from the host are live from the first command")
            if number not in given:
                given.add(number)
                self._open(self.first, number)
            self.content[slot.range.space].set(slot.range, [number])
        return given

    def _read(self, index: int, touched: Range) -> Buffers:
        """The buffers a command reads, after checking their contents."""
        parts = self.live[touched.space].parts(touched)
        self._check_one(index, touched, parts)
        wrong: list[tuple[_Stretch, int]] = []
        for start, end, number in parts:
            pieces = self.content[touched.space].pieces(_part(touched, start, end))
            wrong += [(piece, number) for piece in pieces if number == NOBODY or piece[2] != number]
        for (start, end, content), number in _stretches(wrong):
            if self._is_padding(index, touched, start, end):
                continue
            stale = "nothing" if content == NOBODY else f"the remains of {self._tale(content)}"
            meant = "bytes of no value" if number == NOBODY else self._tale(number)
            fact = f"reads {meant}, but {told(_part(touched, start, end))} holds {stale}"
            raise ProofError("V7", where(self.program, index), fact)
        return frozenset(number for _, _, number in parts)

    def _check_one(self, index: int, touched: Range, parts: list[_Stretch]) -> None:
        """A movement may take several whole values side by side, as a bucket; other operands are one value."""
        if len(parts) == 1:
            return
        wholes = [self.buffers[number].range for _, _, number in parts if number != NOBODY]
        is_bucket = isinstance(self.program.commands[index], Collective)
        if not is_bucket or not all(_holds(touched, whole) for whole in wholes):
            fact = f"accesses {told(touched)}, which is neither within one value nor several whole ones"
            raise ProofError("V7", where(self.program, index), fact)

    def _is_padding(self, index: int, touched: Range, start: int, end: int) -> bool:
        """Whether the bytes are never read: a movement also carries the padding between a bucket's members."""
        if not isinstance(self.program.commands[index], Collective) or not start % ALIGNMENT:
            return False
        return start > touched.offset and end == aligned(start)

    def _write(self, index: int, touched: Range, after: list[_Stretch], before: list[_Stretch]) -> Buffers:
        """The buffers a command writes: those that begin or continue, or, if never read, those that end here."""
        gaps = [part for part in after if part[2] == NOBODY and not self._is_padding(index, touched, *part[:2])]
        parts = before if gaps else after
        self._check_one(index, touched, parts)
        for start, end, number in parts:
            if number == NOBODY and not self._is_padding(index, touched, start, end):
                fact = f"writes {told(_part(touched, start, end))}, where no value is live now"
                raise ProofError("V7", where(self.program, index), fact)
            self.content[touched.space].set(_part(touched, start, end), [number])
        return frozenset(number for _, _, number in parts)

    def _close(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.live[self.buffers[number].range.space].remove(number)

    def _open(self, index: int, number: int) -> None:
        buffer = self.buffers[number]
        other = self.live[buffer.range.space].insert(number)
        if other != NOBODY:
            fact = f"{self._tale(number)} begins in {told(buffer.range)} while {self._tale(other)} is still live"
            raise ProofError("V7", where(self.program, index), fact, "let one end before the other begins")

    def _tale(self, number: int) -> str:
        buffer = self.buffers[number]
        return f"'{buffer.label}' ({buffer.category}, commands {buffer.first} to {buffer.last})"

    def _slot(self, slot: Slot) -> str:
        return f"rank {self.program.rank}, slot {slot.name}"


def _stretches(wrong: list[tuple[_Stretch, int]]) -> list[tuple[_Stretch, int]]:
    """Merges neighbours; the first of them gives the actual and the expected owner."""
    joined: list[tuple[_Stretch, int]] = []
    for (start, end, content), number in wrong:
        if joined and joined[-1][0][1] == start:
            (first, _, its), meant = joined[-1]
            joined[-1] = ((first, end, its), meant)
        else:
            joined.append(((start, end, content), number))
    return joined


def _start(entry: tuple[Range, int]) -> tuple[Space, int]:
    return entry[0].space, entry[0].offset


def _holds(whole: Range, part: Range) -> bool:
    return whole.space == part.space and whole.offset <= part.offset and part.end <= whole.end


def _part(whole: Range, start: int, end: int) -> Range:
    return Range(whole.space, start, end - start)
