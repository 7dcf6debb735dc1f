"""V7: bytes hold one value at a time, and whoever reads them finds its own."""

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

# For each command: of each range that it reads, and of each that it writes, the buffers that lie there, by number.
Buffers = frozenset[int]
Owners = Mapping[int, tuple[tuple[Buffers, ...], tuple[Buffers, ...]]]

# Bytes, as the first and the first behind them, and whose they are.
_Stretch = tuple[int, int, int]


def check_reuse(program: Program) -> Owners:
    """Raises ProofError unless each access is to the value that its buffer holds, in the order of issue.

    Buffers with a byte in common live one after another; at one command the old may end and the new begin, as it does
    where a kernel works in place. What is read was written under the same buffer, or given by the host: buffers of
    inputs live from the first command, those of outputs to the last, those of state all the time. That lanes keep to
    the order of issue is the matter of `check_races`. Linear in commands and buffers, times a logarithm. Needs V3.
    """
    sweep = _Sweep(program)
    for index in range(len(program.commands)):
        sweep.step(index)
    sweep.finish()
    return sweep.owners


class _Sweep:
    """Goes through a program in the order of issue, with the buffers that are alive and whose content bytes are."""

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
            # Nothing happens to memory but at work: from the first to the last that the buffer spans.
            first, behind = bisect_left(work, buffer.first), bisect_right(work, buffer.last)
            if first == behind and number not in given:
                continue
            if number not in given:
                self.begin[work[first]].append(number)
            self.end[work[max(behind - 1, 0)] if work else 0].append(number)

    def step(self, index: int) -> None:
        """One command: what it reads is there, what it writes begins a value or goes on with one."""
        reads, writes = accesses(self.program.commands[index])
        read = tuple(self._read(index, touched) for touched in reads)
        before = [self.live[touched.space].parts(touched) for touched in writes]
        # What ends here may lie where something begins.
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
        """What the host keeps or reads is there at the end."""
        for slot in self.program.slots:
            if slot.role in ("control", "batch"):
                continue
            for start, end, number in self.content[slot.range.space].pieces(slot.range):
                if number == NOBODY:
                    fact = f"nothing has written {told(_part(slot.range, start, end))} of it by the end of the step"
                    raise ProofError("V7", self._slot(slot), fact)
                if self.buffers[number].last < self.last:
                    fact = f"its last value, {self._tale(number)}, does not live to the end of the step"
                    raise ProofError("V7", self._slot(slot), fact)

    def _give(self) -> set[int]:
        """Fills the buffers of what the host gives before the step, each of which holds its slot; returns them."""
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
                raise ProofError("V7", self._slot(slot), fact, "what the host gives lives from the first command")
            if number not in given:
                given.add(number)
                self._open(self.first, number)
            self.content[slot.range.space].set(slot.range, [number])
        return given

    def _read(self, index: int, touched: Range) -> Buffers:
        """Whose bytes a command reads, all of which hold what they should."""
        parts = self.live[touched.space].parts(touched)
        self._check_one(index, touched, parts)
        wrong: list[tuple[_Stretch, int]] = []
        for start, end, number in parts:
            pieces = self.content[touched.space].pieces(_part(touched, start, end))
            wrong += [(piece, number) for piece in pieces if number == NOBODY or piece[2] != number]
        for (start, end, content), number in _stretches(wrong):
            if self._is_padding(index, touched, start, end):
                continue
            stale = "nothing" if content == NOBODY else f"what is left of {self._tale(content)}"
            meant = "bytes of no value" if number == NOBODY else self._tale(number)
            fact = f"reads {meant}, but {told(_part(touched, start, end))} holds {stale}"
            raise ProofError("V7", where(self.program, index), fact)
        return frozenset(number for _, _, number in parts)

    def _check_one(self, index: int, touched: Range, parts: list[_Stretch]) -> None:
        """A movement may take several whole values that lie side by side, as a bucket; all else is of one value."""
        if len(parts) == 1:
            return
        wholes = [self.buffers[number].range for _, _, number in parts if number != NOBODY]
        is_bucket = isinstance(self.program.commands[index], Collective)
        if not is_bucket or not all(_holds(touched, whole) for whole in wholes):
            fact = f"touches {told(touched)}, which is neither of one value nor several whole ones"
            raise ProofError("V7", where(self.program, index), fact)

    def _is_padding(self, index: int, touched: Range, start: int, end: int) -> bool:
        """Whether nobody looks at the bytes: a movement carries what lies between the members of a bucket along."""
        if not isinstance(self.program.commands[index], Collective) or not start % ALIGNMENT:
            return False
        return start > touched.offset and end == aligned(start)

    def _write(self, index: int, touched: Range, after: list[_Stretch], before: list[_Stretch]) -> Buffers:
        """Whose bytes a command writes: of what begins or goes on, or, where nobody reads it, of what ends here."""
        gaps = [part for part in after if part[2] == NOBODY and not self._is_padding(index, touched, *part[:2])]
        parts = before if gaps else after
        self._check_one(index, touched, parts)
        for start, end, number in parts:
            if number == NOBODY and not self._is_padding(index, touched, start, end):
                fact = f"writes {told(_part(touched, start, end))}, where no value has room now"
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
            fact = f"{self._tale(number)} begins in {told(buffer.range)} while {self._tale(other)} is still there"
            raise ProofError("V7", where(self.program, index), fact, "let the one end before the other begins")

    def _tale(self, number: int) -> str:
        buffer = self.buffers[number]
        return f"'{buffer.label}' ({buffer.category}, commands {buffer.first} to {buffer.last})"

    def _slot(self, slot: Slot) -> str:
        return f"rank {self.program.rank}, slot {slot.name}"


def _stretches(wrong: list[tuple[_Stretch, int]]) -> list[tuple[_Stretch, int]]:
    """Joins neighbours; the first of them says what is there and what should be."""
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
