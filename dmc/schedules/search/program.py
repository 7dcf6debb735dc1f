"""Rows by an integer program, which HiGHS solves: the best there are, for few actions.

Variables: the start of each action, the time searched for, and for two actions of a rank whose order needs do not fix,
whether the first comes before the second. As every stage takes its micro-batches in order, those are few.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Generator, Mapping
from typing import Any

from dmc import highs
from dmc.schedules.search.problem import Problem, Rows
from dmc.schedules.search.timing import timed


@dataclasses.dataclass(frozen=True)
class Solved:
    """rows: the best found. bound: no rows take less time."""

    rows: Rows
    bound: float


def solve(problem: Problem, start: Rows, nodes: int, seconds: float) -> Solved:
    """The best rows for a problem, or the best found within nodes of the search and seconds; at worst `start`.

    Raises DmcError where HiGHS is not installed.
    """
    return _Program(problem, start).solve(nodes, seconds)


def free_pairs(problem: Problem) -> list[tuple[int, int]]:
    """Each two actions of a rank whose order needs do not fix."""
    before, on = _before(problem), _ranks(problem)
    return [
        (one, other)
        for one, other in itertools.combinations(range(len(before)), 2)
        if on[one] == on[other] and not before[other] >> one & 1 and not before[one] >> other & 1
    ]


class _Program:
    def __init__(self, problem: Problem, start: Rows) -> None:
        begun = timed(problem, start)
        assert begun is not None
        self._problem, self._start, self._begun = problem, start, begun
        self._before = _before(problem)
        size = len(problem.times)
        self._on = _ranks(problem)
        self._heads, self._tails = self._work_around()
        # Columns: the start of each action, then the time, then one for each pair.
        self._time = size
        self._pairs = {pair: size + 1 + place for place, pair in enumerate(free_pairs(problem))}

    def solve(self, nodes: int, seconds: float) -> Solved:
        highspy, solver = highs.solver("schedule by an integer program", 1e-6, nodes, seconds)
        self._add_columns(solver, highspy)
        self._add_rows(solver)
        solution = highspy.HighsSolution()
        solution.col_value = self._values()
        solver.setSolution(solution)
        solver.run()
        info = solver.getInfo()
        bound = max(info.mip_dual_bound, self._problem.bound)
        if info.primal_solution_status != highspy.kSolutionStatusFeasible:
            return Solved(self._start, bound)
        rows = self._rows(list(solver.getSolution().col_value))
        found = timed(self._problem, rows)
        is_better = found is not None and found.time < self._begun.time
        return Solved(rows if is_better else self._start, min(bound, found.time if found else self._begun.time))

    def _work_around(self) -> tuple[list[float], list[float]]:
        """The work that an action's rank must do before it, and after it."""
        times, on = self._problem.times, self._on
        heads, tails = [0.0] * len(times), [0.0] * len(times)
        for number, before in enumerate(self._before):
            for other in _bits(before):
                if on[other] == on[number]:
                    heads[number] += times[other]
                    tails[other] += times[number]
        return heads, tails

    def _add_columns(self, solver: Any, highspy: Any) -> None:
        longest = 3 * self._begun.time
        for _ in self._before:
            solver.addCol(0.0, 0.0, longest, 0, [], [])
        solver.addCol(1.0, self._problem.bound, self._begun.time, 0, [], [])
        for column in self._pairs.values():
            solver.addCol(0.0, 0.0, 1.0, 0, [], [])
            solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)

    def _add_rows(self, solver: Any) -> None:
        problem, times = self._problem, self._problem.times
        for number, needs in enumerate(problem.needs):
            for need, delay in needs:
                _add(solver, {number: 1.0, need: -1.0}, times[need] + delay)
        for number in range(len(times)):
            if (number + 1) % problem.microbatches:
                _add(solver, {number + 1: 1.0, number: -1.0}, times[number])
        for (one, other), column in self._pairs.items():
            # Two actions of a rank are no further apart than the time less the work around them.
            apart = self._begun.time - self._heads[other] - self._tails[one]
            _add(solver, {other: 1.0, one: -1.0, column: -apart}, times[one] - apart)
            apart = self._begun.time - self._heads[one] - self._tails[other]
            _add(solver, {one: 1.0, other: -1.0, column: apart}, times[other])
            self._add_neighbours(solver, one, other, column)
        for rank in range(problem.ranks):
            self._add_time(solver, rank)
            self._add_memory(solver, rank)

    def _add_neighbours(self, solver: Any, one: int, other: int, column: int) -> None:
        """What comes before an action comes before the next of its stage."""
        for pair, factor in (((one, other + 1), 1.0), ((one + 1, other), -1.0)):
            if (neighbour := self._pairs.get(pair)) is not None and self._are_alike(pair, (one, other)):
                _add(solver, {neighbour: factor, column: -factor}, 0.0)

    def _are_alike(self, pair: tuple[int, int], other: tuple[int, int]) -> bool:
        size = self._problem.microbatches
        return all(one // size == two // size for one, two in zip(pair, other, strict=True))

    def _add_time(self, solver: Any, rank: int) -> None:
        problem = self._problem
        own = problem.stages_on(rank)
        first = problem.number(0, own[0], 0)
        for stage in own:
            last = problem.number(2, stage, problem.microbatches - 1)
            terms = {self._time: 1.0, last: -1.0} | ({} if problem.barrier else {first: 1.0})
            _add(solver, terms, problem.times[last])

    def _add_memory(self, solver: Any, rank: int) -> None:
        problem = self._problem
        own = [number for number in range(len(self._on)) if self._on[number] == rank]
        for forward in own:
            if problem.kind_and_stage(forward)[0] != 0:
                continue
            terms, kept = dict[int, float](), problem.keeps[forward]
            for other in own:
                keeps = problem.keeps[other]
                if self._before[forward] >> other & 1:
                    kept += keeps
                elif (column := self._pairs.get((other, forward))) is not None:
                    terms[column] = -keeps
                elif (column := self._pairs.get((forward, other))) is not None:
                    kept += keeps
                    terms[column] = keeps
            if terms:
                _add(solver, terms, kept - problem.caps[rank])

    def _values(self) -> list[float]:
        """The columns of the rows that are given."""
        begun = self._begun
        early = [end - time for end, time in zip(begun.ends, self._problem.times, strict=True)]
        places = {number: place for row in self._start for place, number in enumerate(row)}
        return [*(begun.late or early), begun.time, *(float(places[one] < places[two]) for one, two in self._pairs)]

    def _rows(self, values: list[float]) -> Rows:
        rows: Rows = [[] for _ in range(self._problem.ranks)]
        numbers = range(len(self._on))
        depth = [before.bit_count() for before in self._before]
        for number in sorted(numbers, key=lambda each: (round(values[each], 6), depth[each])):
            rows[self._on[number]].append(number)
        return rows


def _before(problem: Problem) -> list[int]:
    """By action, as bits: those that needs and the order of micro-batches put before it."""
    size = problem.microbatches
    before: list[int | None] = [None] * len(problem.times)

    def visit(number: int) -> int:
        if (known := before[number]) is None:
            known = 0
            direct = [need for need, _ in problem.needs[number]] + ([number - 1] if number % size else [])
            for other in direct:
                known |= visit(other) | 1 << other
            before[number] = known
        return known

    return [visit(number) for number in range(len(before))]


def _ranks(problem: Problem) -> list[int]:
    return [problem.ranks_of[action.stage] for action in problem.actions]


def _bits(bits: int) -> Generator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _add(solver: Any, terms: Mapping[int, float], least: float) -> None:
    solver.addRow(least, float("inf"), len(terms), list(terms), list(terms.values()))
