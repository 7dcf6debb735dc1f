"""The time of rows, quickly: what `play` says of their table, over numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dmc.schedules.search.problem import Problem, Rows


@dataclasses.dataclass(frozen=True)
class Timed:
    """Rows with times.

    time: the one that is searched for. last: the action with whose end it ends. ends: of each action, where all start
    as early as they can. late: the start of each where all start as late as they can while no rank ends later; None
    where a barrier makes starts irrelevant.
    """

    time: float
    last: int
    ends: Sequence[float]
    late: Sequence[float] | None


def timed(problem: Problem, rows: Rows) -> Timed | None:
    """The times of rows; None for a deadlock."""
    ends, order = _ends(problem, rows)
    if len(order) < len(ends):
        return None
    late = None if problem.barrier else _late_starts(problem, rows, ends, order)
    time, last = max((ends[row[-1]] - (late[row[0]] if late else 0.0), row[-1]) for row in rows)
    return Timed(time, last, ends, late)


def _ends(problem: Problem, rows: Rows) -> tuple[list[float], list[int]]:
    """The earliest end of each action, and the actions in an order that keeps their needs: not all in a deadlock."""
    needs, times = problem.needs, problem.times
    ends = [-1.0] * len(times)
    order: list[int] = []
    positions = [0] * len(rows)
    free = [0.0] * len(rows)
    going = list(range(len(rows)))
    waiting: dict[int, int] = {}
    while going:
        rank = going.pop()
        for number in rows[rank][positions[rank] :]:
            start, missing = _start(needs[number], ends, free[rank])
            if missing >= 0:
                waiting[missing] = rank
                break
            ends[number] = free[rank] = start + times[number]
            order.append(number)
            positions[rank] += 1
            if number in waiting:
                going.append(waiting.pop(number))
    return ends, order


def _start(needs: Sequence[tuple[int, float]], ends: Sequence[float], start: float) -> tuple[float, int]:
    """The earliest start of an action whose rank is free at one, and what it needs that has no end yet; else -1."""
    for need, delay in needs:
        if (end := ends[need]) < 0:
            return start, need
        if end + delay > start:
            start = end + delay
    return start, -1


def _late_starts(problem: Problem, rows: Rows, ends: Sequence[float], order: Sequence[int]) -> list[float]:
    needs, times, ranks_of = problem.needs, problem.times, problem.ranks_of
    size, stages = problem.microbatches, problem.stages
    free = [ends[row[-1]] for row in rows]
    due = [float("inf")] * len(ends)
    starts = [0.0] * len(ends)
    for number in reversed(order):
        rank = ranks_of[number // size % stages]
        starts[number] = free[rank] = start = min(free[rank], due[number]) - times[number]
        for need, delay in needs[number]:
            due[need] = min(due[need], start - delay)
    return starts
