"""How much memory a program needs at least: the most that is alive at one of its commands."""

from __future__ import annotations

from collections import Counter, defaultdict

from dmc.program import Job, Program, Range, Space, aligned


def worst_ratio(job: Job, space: Space = "device") -> float:
    """The largest arena of a rank over its lower bound."""
    return max(program.arenas[space] / lower_bound(program, space) for program in job.programs)


def lower_bound(program: Program, space: Space) -> int:
    """The largest sum of the bytes that are alive at one command, each value rounded up to its alignment.

    What takes the place of another value at a command is there once.
    """
    begin: defaultdict[int, list[Range]] = defaultdict(list)
    end: defaultdict[int, list[Range]] = defaultdict(list)
    for buffer in program.buffers:
        if buffer.range.space == space:
            begin[buffer.first].append(buffer.range)
            end[buffer.last].append(buffer.range)
    alive: Counter[Range] = Counter()
    now = most = 0
    for index in range(len(program.commands)):
        for where in begin[index]:
            now += _aligned(where) if not alive[where] else 0
            alive[where] += 1
        most = max(most, now)
        for where in end[index]:
            alive[where] -= 1
            now -= _aligned(where) if not alive[where] else 0
    return most


def _aligned(where: Range) -> int:
    return aligned(where.length)
