"""Rows as a table: halves that follow each other become a whole backward where that costs no time."""

from __future__ import annotations

import math

from dmc.schedules.named import laid_out
from dmc.schedules.playing import play
from dmc.schedules.search.problem import SLACK, Problem, Rows
from dmc.schedules.search.timing import timed
from dmc.schedules.table import Action, Table


def as_table(problem: Problem, rows: Rows) -> Table:
    """The table of rows. A whole backward is one piece of work for the compiler, but its rank passes on later."""
    split = _table(problem, rows)
    whole = _table(problem, _joined(problem, rows))
    return whole if _time(problem, whole) <= _time(problem, split) * (1 + SLACK) else split


def _table(problem: Problem, rows: Rows) -> Table:
    """A row's number -1 - n is the backward whose gradient of inputs is n."""
    actions = [
        [problem.actions[each] if each >= 0 else _whole(problem.actions[-1 - each]) for each in row] for row in rows
    ]
    return laid_out(actions, problem.ranks_of)


def _whole(inputs: Action) -> Action:
    return Action("B", inputs.stage, inputs.micro)


def _joined(problem: Problem, rows: Rows) -> Rows:
    """The rows with a backward for each two halves side by side whose gradient is not awaited until both have ended."""
    result = timed(problem, rows)
    assert result is not None
    ends, group = result.ends, problem.stages * problem.microbatches
    awaited = [math.inf] * group
    for number in range(group, 2 * group):
        for need, delay in problem.needs[number]:
            if need >= group:
                awaited[need - group] = ends[number] - problem.times[number] - delay
    joined: Rows = []
    for row in rows:
        made: list[int] = []
        for number in row:
            inputs = number - group
            if number >= 2 * group and made[-1] == inputs and ends[number] <= awaited[inputs - group] * (1 + SLACK):
                made[-1] = -1 - inputs
            else:
                made.append(number)
        joined.append(made)
    return joined


def _time(problem: Problem, table: Table) -> float:
    played = play(table, problem.costs)
    return played.makespan if problem.barrier else played.period
