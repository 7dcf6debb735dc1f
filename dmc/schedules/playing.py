"""A table played: when each action runs, how long ranks idle, and what they keep."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dmc.errors import PlanError
from dmc.schedules.costs import Costs
from dmc.schedules.dependencies import in_order, needs, provides
from dmc.schedules.table import Action, Table


@dataclasses.dataclass(frozen=True)
class Span:
    """An action with its start and its end, in the unit of the costs."""

    action: Action
    start: float
    end: float


@dataclasses.dataclass(frozen=True)
class Played:
    """A table played with costs; times in their unit.

    spans: the actions of each rank with start and end, each as early as its rank and what it needs allow.
    makespan: from the first start to the last end of all ranks. A step takes that where all ranks wait for each other
    at its end, as for a global norm.
    period: the time of a step where each rank goes on with the next step at once: the longest time from a rank's first
    start, put off as long as nothing ends later for it, to its last end.
    busy, idle, idle_fraction: by rank; idle is what is left of the makespan, and the fraction is of the makespan.
    bubble: what the period is longer than the busiest rank's work (`idle_formula`).
    kept: by rank, the most (stage, micro-batch) pairs that are kept at once. A pair is kept from the start of F to the
    end of B or W.
    peak: by rank, the most that is kept at once in the unit of `Costs.kept`. F adds what the stage keeps at its start,
    B frees that at its end, I frees all but `kept_for_weights` at its end and W the rest.
    """

    spans: tuple[tuple[Span, ...], ...]
    makespan: float
    period: float
    busy: tuple[float, ...]
    idle: tuple[float, ...]
    idle_fraction: tuple[float, ...]
    bubble: float
    kept: tuple[int, ...]
    peak: tuple[float, ...]


def play(table: Table, costs: Costs) -> Played:
    """Plays a table. Raises PlanError for costs of another number of stages, and for a deadlock."""
    if costs.stages != table.stages:
        hint = "give one number for each stage"
        raise PlanError("costs", f"are of {costs.stages} stages, the table has {table.stages}", hint)
    order = [action for _, action in in_order(table)]
    ends = _earliest(table, costs, order)
    spans = tuple(
        tuple(Span(action, ends[action] - costs.time(action), ends[action]) for action in table.row(rank))
        for rank in range(table.ranks)
    )
    starts = _latest_first_starts(table, costs, order, ends)
    makespan = max(ends.values(), default=0.0)
    period = max((row[-1].end - start for row, start in zip(spans, starts, strict=True) if row), default=0.0)
    busy = tuple(sum(costs.time(span.action) for span in row) for row in spans)
    idle = tuple(makespan - each for each in busy)
    return Played(
        spans=spans,
        makespan=makespan,
        period=period,
        busy=busy,
        idle=idle,
        idle_fraction=tuple(each / makespan if makespan else 0.0 for each in idle),
        bubble=period - max(busy, default=0.0),
        kept=tuple(int(_peak(table.row(rank), None)) for rank in range(table.ranks)),
        peak=tuple(_peak(table.row(rank), costs) for rank in range(table.ranks)),
    )


def _earliest(table: Table, costs: Costs, order: list[Action]) -> dict[Action, float]:
    """The end of each action, where all start as early as they can."""
    free = [0.0] * table.ranks
    ends: dict[Action, float] = {}
    known: dict[Action, float] = {}
    for action in order:
        rank = table.ranks_of[action.stage]
        start = free[rank]
        for need in needs(action, table.stages):
            start = max(start, known[need] + _delay(table, costs, need, rank))
        ends[action] = known[provides(action)] = free[rank] = start + costs.time(action)
    return ends


def _latest_first_starts(
    table: Table, costs: Costs, order: list[Action], ends: Mapping[Action, float]
) -> tuple[float, ...]:
    """By rank, how late its first action can start where no rank's last action ends later than in `ends`."""
    free = [max((ends[action] for action in table.row(rank)), default=0.0) for rank in range(table.ranks)]
    due: dict[Action, float] = {}
    for action in reversed(order):
        rank = table.ranks_of[action.stage]
        start = min(free[rank], due.get(provides(action), free[rank])) - costs.time(action)
        free[rank] = start
        for need in needs(action, table.stages):
            latest = start - _delay(table, costs, need, rank)
            due[need] = min(due.get(need, latest), latest)
    return tuple(free)


def _delay(table: Table, costs: Costs, need: Action, rank: int) -> float:
    return 0.0 if table.ranks_of[need.stage] == rank else costs.message


def _peak(row: tuple[Action, ...], costs: Costs | None) -> float:
    kept = peak = 0.0
    for action in row:
        if action.kind == "F":
            kept += 1 if costs is None else costs.kept_by(action.stage)
        peak = max(peak, kept)
        kept -= (action.kind in "BW") if costs is None else costs.freed(action)
    return peak
