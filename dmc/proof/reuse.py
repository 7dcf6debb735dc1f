"""V7: bytes hold one value at a time, and whoever reads them finds its own."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby

from dmc.errors import ProofError
from dmc.program import ALIGNMENT, Await, Collective, Program, Range, Record, Slot, accesses
from dmc.program.interval_map import IntervalMap
from dmc.program.program import Space
from dmc.proof.live_buffers import NOBODY, LiveBuffers
from dmc.proof.story import told, where

# For each command: the buffers, by number, of what it reads and of what it writes.
Owners = Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]


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
        self.owners: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.live: defaultdict[Space, LiveBuffers] = defaultdict(lambda: LiveBuffers(program.buffers))
        self.content: defaultdict[Space, IntervalMap[int]] = defaultdict(lambda: IntervalMap(NOBODY))
        self.end: defaultdict[int, list[int]] = defaultdict(list)
        for number, buffer in enumerate(self.buffers):
            self.end[max(buffer.last, self.first)].append(number)
        given = self._give()
        self.begin: defaultdict[int, list[int]] = defaultdict(list)
        for number, buffer in enumerate(self.buffers):
            if number not in given:
                self.begin[buffer.first].append(number)

    def step(self, index: int) -> None:
        """One command: what it reads is there, what it writes begins a value or goes on with one."""
        reads, writes = accesses(self.program.commands[index])
        read = tuple(self._read(index, touched) for touched in reads)
        # What ends here may lie where something begins.
        fresh = set(self.begin[index])
        before = {touched: self.live[touched.space].holding(touched) for touched in writes}
        ended = [number for number in self.end[index] if number not in fresh]
        for number in ended:
            self.live[self.buffers[number].range.space].remove(number)
        for number in self.begin[index]:
            self._open(index, number)
        written = tuple(self._written(index, touched, before[touched]) for touched in writes)
        self.owners[index] = (read, written)
        for number in self.end[index]:
            if number in fresh:
                self.live[self.buffers[number].range.space].remove(number)

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

    def _read(self, index: int, touched: Range) -> int:
        number = self.live[touched.space].holding(touched)
        if number == NOBODY:
            fact = f"reads {told(touched)}, where no one buffer holds a value now"
            raise ProofError("V7", where(self.program, index), fact)
        for start, end, content in _gaps(self.content[touched.space].pieces(touched), number):
            if self._is_padding(index, touched, start, end):
                continue
            stale = "nothing" if content == NOBODY else f"what is left of {self._tale(content)}"
            fact = f"reads {self._tale(number)}, but {told(_part(touched, start, end))} holds {stale}"
            raise ProofError("V7", where(self.program, index), fact)
        return number

    def _is_padding(self, index: int, touched: Range, start: int, end: int) -> bool:
        """Whether nobody looks at the bytes: a movement carries what lies between the members of a bucket along."""
        if not isinstance(self.program.commands[index], Collective) or not start % ALIGNMENT:
            return False
        return start > touched.offset and end == -(-start // ALIGNMENT) * ALIGNMENT

    def _written(self, index: int, touched: Range, before: int) -> int:
        number = self.live[touched.space].holding(touched)
        # Its last access may be a write: of a value that nobody reads.
        number = before if number == NOBODY else number
        if number == NOBODY:
            fact = f"writes {told(touched)}, which no one buffer has room for now"
            raise ProofError("V7", where(self.program, index), fact)
        self.content[touched.space].set(touched, [number])
        return number

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


def _gaps(pieces: list[tuple[int, int, int]], number: int) -> Iterator[tuple[int, int, int]]:
    """The stretches of bytes that hold something else than buffer `number`, each with what its first byte holds."""
    for is_gap, group in groupby(pieces, lambda piece: piece[2] != number):
        if is_gap:
            stretch = list(group)
            yield stretch[0][0], stretch[-1][1], stretch[0][2]


def _start(entry: tuple[Range, int]) -> tuple[Space, int]:
    return entry[0].space, entry[0].offset


def _holds(whole: Range, part: Range) -> bool:
    return whole.space == part.space and whole.offset <= part.offset and part.end <= whole.end


def _part(whole: Range, start: int, end: int) -> Range:
    return Range(whole.space, start, end - start)
