"""Kernels of a job, each alone between guard bytes: they leave their operands and all other memory as they are.

Each runs on the same operands three times: twice on memory that holds different bytes, and once in place where the plan
has it in place. All give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dmc.dtypes import dtype_of
from dmc.program import ALIGNMENT, Job, Launch, Operand, Program, Range, aligned
from dmc.program.program import Lane, Slot

# Runs a job of one rank and one state tensor, all of its device memory, and gives that memory afterwards.
Executor = Callable[[Job, np.ndarray], np.ndarray]


def faults(job: Job, execute: Executor) -> list[str]:
    """What the kernels of a job do that they must not."""
    guarded = _Guarded(job)
    kinds = launches_of(job)
    for launch in kinds:
        for in_place in (False, False, True):
            guarded.add(launch, in_place=in_place)
    before = guarded.memory()
    after = execute(guarded.job(), before)
    found = list(guarded.changes(before, after))
    results = [[after[each.offset : each.end].tobytes() for each in launch.writes] for launch in guarded.launches]
    for number, launch in enumerate(kinds):
        first, second, third = results[3 * number : 3 * number + 3]
        found += [f"{launch.kernel} reads what is no operand"] if first != second else []
        found += [f"{launch.kernel} gives something else in place"] if first != third else []
    return found


def launches_of(job: Job) -> list[Launch]:
    """One of each kernel for each way in which its results lie on its operands, and its operands in memory."""
    kinds: dict[tuple[str, tuple[int, ...]], Launch] = {}
    for command in job.programs[0].commands:
        if isinstance(command, Launch):
            on_operands = (command.reads.index(each) if each in command.reads else -1 for each in command.writes)
            beside = (each.offset % ALIGNMENT for each in (*command.reads, *command.writes))
            kinds.setdefault((command.kernel, (*on_operands, *beside)), command)
    return list(kinds.values())


@dataclass
class _Guarded:
    """Launches of a job one after another, each on memory of its own with guard bytes around all of it."""

    original: Job

    def __post_init__(self) -> None:
        self.size = ALIGNMENT
        self.launches: list[Launch] = []
        self.ends: list[int] = []
        self.operands: list[tuple[Range, bytes]] = []

    def add(self, launch: Launch, *, in_place: bool) -> None:
        """Launches the kernel of a launch; a result takes the place of an operand, `in_place`, where it did there."""
        kernel = self.original.kernels[launch.kernel]
        places: dict[Range, Range] = {each: self._room(each) for each in launch.reads}
        reads = tuple(places[each] for each in launch.reads)
        writes = tuple(places[each] if in_place and each in places else self._room(each) for each in launch.writes)
        scratch = None if launch.scratch is None else self._room(launch.scratch)
        # An operand that is read twice is one.
        first = [launch.reads.index(each) for each in launch.reads]
        self.operands += [(place, _bytes(kernel.reads[i], seed=i)) for place, i in zip(reads, first, strict=True)]
        self.launches.append(Launch(0, launch.kernel, reads, writes, scratch))
        self.ends.append(self.size)

    def job(self) -> Job:
        """All of it, as a job whose state is its memory."""
        memory = Slot("memory", "parameter", "i8", (self.size,), Range("device", 0, self.size))
        lanes = (Lane("compute", "compute"),)
        program = Program(0, {"device": self.size}, lanes, (memory,), tuple(self.launches))
        return Job.of({"rank": 1}, (), self.original.kernels, (program,))

    def memory(self) -> np.ndarray:
        """The operands among bytes that differ everywhere."""
        made = np.random.default_rng(1).integers(-128, 128, self.size, np.int8)
        for where, data in self.operands:
            made[where.offset : where.end] = np.frombuffer(data, np.int8)
        return made

    def changes(self, before: np.ndarray, after: np.ndarray) -> Iterator[str]:
        """The launches beside whose results and scratch a byte has changed."""
        changed = before != after
        for launch in self.launches:
            for where in (*launch.writes, *([launch.scratch] if launch.scratch else [])):
                changed[where.offset : where.end] = False
        for launch, start, end in zip(self.launches, [0, *self.ends], self.ends, strict=False):
            if changed[start:end].any():
                yield f"{launch.kernel} changes byte {start + int(np.argmax(changed[start:end]))}: {launch}"

    def _room(self, original: Range) -> Range:
        """At the same distance from a multiple of `ALIGNMENT` as before."""
        given = Range("device", self.size + original.offset % ALIGNMENT, original.length)
        self.size = aligned(given.end) + ALIGNMENT
        return given


def _bytes(operand: Operand, seed: int) -> bytes:
    """Values of its type; integers that are indices of anything."""
    dtype = dtype_of(operand.dtype).numpy
    drawn = np.random.default_rng(seed)
    values = drawn.integers(0, 2, operand.shape) if dtype.kind in "iub" else drawn.uniform(0.1, 1.0, operand.shape)
    return np.asarray(values).astype(dtype).tobytes()
