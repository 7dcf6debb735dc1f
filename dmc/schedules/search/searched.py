"""A schedule that is made for its stages' costs and for what each rank may keep."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence

from dmc.errors import PlanError
from dmc.schedules.costs import Costs
from dmc.schedules.named import NAMES, schedule
from dmc.schedules.playing import play
from dmc.schedules.search.greedy import Prefer, Rules, greedy
from dmc.schedules.search.improve import improve
from dmc.schedules.search.joined import as_table
from dmc.schedules.search.placements import caps_of, checked, placements, that_fit
from dmc.schedules.search.problem import SLACK, Problem, Rows
from dmc.schedules.search.program import free_pairs, solve
from dmc.schedules.search.timing import timed
from dmc.schedules.table import Table


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long a search goes on. All but the seconds end it at the same place every time.

    timed: how many actions are timed while the best rows are improved. program: an integer program follows where at
    most so many orders of two actions are free; 0 for none. nodes: the most of its search. seconds: the search ends
    then, wherever it is; 8 ranks and 32 micro-batches are meant to need less.
    """

    timed: int = 2_000_000
    program: int = 100
    nodes: int = 1_000
    seconds: float = 30.0


def searched(
    costs: Costs,
    ranks: int,
    microbatches: int,
    memory: float | Sequence[float] | None = None,
    *,
    ranks_of: Sequence[int] | None = None,
    barrier: bool = False,
    effort: Effort = Effort(),
) -> Table:
    """The fastest schedule that is found for stages of these costs.

    memory: what each rank, or all alike, may keep at most, as `Played.peak` counts it; None for any amount.
    ranks_of: the rank of each stage; None tries a loop, and with two stages on each rank a V.
    barrier: whether all ranks wait for each other at the end of a step. The makespan is made short then, else the
    period.

    Never slower than a named schedule that has the stages on the same ranks and keeps no more. Raises PlanError for
    stages that cannot be dealt out, and for a cap that no schedule meets.
    """
    if microbatches < 1:
        raise PlanError("searched", f"has {microbatches} micro-batches", hint="give at least 1")
    deadline = time.monotonic() + effort.seconds
    caps = caps_of(ranks, memory)
    given = placements(costs.stages, ranks) if ranks_of is None else [checked(costs.stages, ranks, ranks_of)]
    problems = [Problem(costs, each, microbatches, caps, barrier) for each in that_fit(costs, given, caps)]
    best = _best_of(problems, effort, deadline)
    problem = best.problem
    if not best.is_optimal() and len(free_pairs(problem)) <= effort.program:
        solved = solve(problem, best.rows, effort.nodes, max(0.0, deadline - time.monotonic()))
        best = _found(problem, solved.rows)
    return as_table(problem, best.rows)


# Ends at the same place on every machine, which schedules that are part of a plan must.
_REPEATABLE = Effort(program=0, seconds=math.inf)


def searched_by_name(costs: Costs, ranks: int, microbatches: int) -> Table:
    """The schedule `"searched"` of a plan: the fastest found of which no rank keeps more than the rank of the named one
    with its layout that keeps the most.

    Ranks wait for each other at the end of a step, as those do that clip gradients.
    """
    named = layout(ranks, microbatches, costs.stages // ranks)
    kept = max(play(named, costs).peak)
    return searched(costs, ranks, microbatches, kept, ranks_of=named.ranks_of, barrier=True, effort=_REPEATABLE)


def layout(ranks: int, microbatches: int, chunks: int) -> Table:
    """The named schedule whose stages are where those of `"searched"` are: `1f1b` with one stage on each rank, `zb-v`
    with two, and `bfs` with more."""
    return schedule({1: "1f1b", 2: "zb-v"}.get(chunks, "bfs"), ranks, microbatches, chunks)


@dataclasses.dataclass(frozen=True)
class _Found:
    problem: Problem
    rows: Rows
    time: float

    def is_optimal(self) -> bool:
        return self.time <= self.problem.bound * (1 + SLACK)


def _found(problem: Problem, rows: Rows) -> _Found:
    result = timed(problem, rows)
    assert result is not None
    return _Found(problem, rows, result.time)


def _best_of(problems: Sequence[Problem], effort: Effort, deadline: float) -> _Found:
    """The best of what rules and names make, improved."""
    found: list[_Found] = []
    for problem in problems:
        for rows in _first_rows(problem):
            found.append(_found(problem, rows))
            if found[-1].is_optimal() or time.monotonic() > deadline:
                break
    best = min(found, key=lambda each: each.time)
    if best.is_optimal():
        return best
    tries = effort.timed // len(best.problem.times)
    return _found(best.problem, improve(best.problem, best.rows, tries, deadline))


def _first_rows(problem: Problem) -> Iterator[Rows]:
    """Rows of the named schedules that fit, and of rules."""
    for name in NAMES:
        try:
            table = schedule(name, problem.ranks, problem.microbatches, problem.stages // problem.ranks)
        except PlanError:
            continue
        rows = problem.rows_of(table)
        if table.ranks_of == problem.ranks_of and all(map(problem.fits, rows, range(problem.ranks))):
            yield rows
    for slope, gap, prefer in _RULES:
        yield greedy(problem, Rules(_ahead(problem, slope), prefer, gap))


# By how many forward passes rank 0 may be ahead, as a multiple of the stages; the least share of a gradient of weights
# that a gap must hold; what goes first. For each of 187 random problems one of these was the best of 90 such rules.
_RULES: tuple[tuple[float, float, Prefer], ...] = (
    *((math.inf, 0.5, "turns"), (math.inf, 0.0, "turns"), (math.inf, 1.0, "turns"), (1.5, 0.5, "turns")),
    *((math.inf, 0.5, "I"), (math.inf, 0.5, "F"), (1.5, 0.0, "turns"), (math.inf, 0.0, "I"), (math.inf, 0.0, "F")),
    *((2.0, 0.0, "I"), (2.0, 0.5, "F"), (1.0, 0.0, "F"), (2.0, 0.0, "F"), (math.inf, 1.0, "F")),
)


def _ahead(problem: Problem, slope: float) -> tuple[float, ...]:
    """By rank: as much less as it is nearer to the last."""
    chunks = -(-problem.stages // problem.ranks)
    return tuple(max(chunks, slope * chunks * (problem.ranks - rank)) for rank in range(problem.ranks))
