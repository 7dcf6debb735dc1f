"""The partition of a piece into kernels that costs the least, as an integer program."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dmc import highs

# Limits of a piece's program; the number of nodes, unlike time, is met at the same place every time.
_NODES, _SECONDS, _ROUNDS = 5_000, 30.0, 100
# A constraint on variables, by number: the sum of their products with factors is at most, or exactly, a bound.
_Terms = Mapping[int, float]


@dataclass(frozen=True)
class Partition:
    """chosen: sets of atoms, as bits. cost: theirs together. bound: no partition into the candidates costs less."""

    chosen: tuple[int, ...]
    cost: float
    bound: float


def partition(costs: Mapping[int, float], reached: Sequence[int], start: Sequence[int]) -> Partition:
    """Chooses candidates so that each atom is in one, the kernels can be ordered, and the costs are least.

    costs: of each candidate, which is a set of atoms, as bits. reached: where paths from each atom lead. start: a
    solution, which is improved on. A variable x ∈ {0, 1} for each candidate; minimise Σ cost · x, where for each atom
    Σ x = 1 over the candidates that hold it. Where kernels of a solution wait for each other, that cycle is excluded,
    and the program solved again.
    """
    sets = sorted(costs)
    program = _Program([costs[each] for each in sets], [float(each in start) for each in sets])
    for atom in range(len(reached)):
        program.add({i: 1.0 for i, each in enumerate(sets) if each >> atom & 1}, exactly=True, bound=1)
    bound = 0.0
    for _ in range(_ROUNDS):
        values, bound = program.solve()
        chosen = [each for each, value in zip(sets, values, strict=True) if value > 0.5]
        if not (cuts := list(_cycles(chosen, reached))):
            break
        for ends in cuts:
            terms = {i: count for i, each in enumerate(sets) if (count := _along(each, ends))}
            program.add(terms, exactly=False, bound=len(ends) - 1)
    else:
        chosen = []
    cost = sum(costs[each] for each in chosen)
    before = sum(costs[each] for each in start)
    if not chosen or cost >= before:
        return Partition(tuple(sorted(start)), before, min(bound, before))
    return Partition(tuple(chosen), cost, min(bound, cost))


def _along(candidate: int, ends: Sequence[tuple[int, int]]) -> float:
    """How many parts of a cycle a candidate takes; none if it takes all, and there is no cycle any more."""
    count = sum(candidate >> entry & candidate >> leave & 1 for entry, leave in ends)
    return 0.0 if count == len(ends) else float(count)


def _cycles(chosen: Sequence[int], reached: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """A shortest cycle through each kernel that is in any: by kernel, the atoms through which it enters and leaves."""
    leads: dict[int, int] = {}
    for each in chosen:
        leads[each] = 0
        for atom in _atoms(each):
            leads[each] |= reached[atom]
    after = {each: [other for other in chosen if other != each and leads[each] & other] for each in chosen}
    seen: set[frozenset[int]] = set()
    for each in chosen:
        cycle = _shortest(each, after)
        if cycle and frozenset(cycle) not in seen:
            seen.add(frozenset(cycle))
            yield _ends(cycle, reached)


def _shortest(start: int, after: Mapping[int, Sequence[int]]) -> list[int]:
    """The kernels of a shortest cycle through one; none if there is no cycle."""
    came, pending = dict[int, int](), collections.deque([start])
    while pending and start not in came:
        each = pending.popleft()
        new = [other for other in after[each] if other not in came]
        came.update(dict.fromkeys(new, each))
        pending += new
    path = [came[start]] if start in came else []
    while path and path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def _ends(cycle: Sequence[int], reached: Sequence[int]) -> list[tuple[int, int]]:
    entries: list[int] = []
    leaves: list[int] = []
    for one, other in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        leave = next(atom for atom in _atoms(one) if reached[atom] & other)
        leaves.append(leave)
        entries.append(next(_atoms(reached[leave] & other)))
    return list(zip([entries[-1], *entries[:-1]], leaves, strict=True))


def _atoms(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


class _Program:
    """An integer program over variables of 0 or 1, solved by HiGHS."""

    def __init__(self, costs: Sequence[float], start: Sequence[float]) -> None:
        self._highspy, self._solver = highs.solver("fusion by an integer program", 0.0, _NODES, _SECONDS)
        self._start, self._unit = list(start), max(costs) or 1.0
        # In units in which the solver's absolute tolerances are small.
        for i, cost in enumerate(costs):
            self._solver.addCol(1000 * cost / self._unit, 0.0, 1.0, 0, [], [])
            self._solver.changeColIntegrality(i, self._highspy.HighsVarType.kInteger)

    def add(self, terms: _Terms, exactly: bool, bound: int) -> None:
        """Adds a constraint."""
        low = float(bound) if exactly else -float("inf")
        self._solver.addRow(low, float(bound), len(terms), list(terms), list(terms.values()))

    def solve(self) -> tuple[list[float], float]:
        """The best values found, or those of the start, and a bound of the least cost."""
        start = self._highspy.HighsSolution()
        start.col_value = self._start
        self._solver.setSolution(start)
        self._solver.run()
        info = self._solver.getInfo()
        has_values = info.primal_solution_status == self._highspy.kSolutionStatusFeasible
        values = list(self._solver.getSolution().col_value) if has_values else self._start
        # Costs are not negative, so that 0 is a bound where none was found.
        return values, max(info.mip_dual_bound, 0.0) * self._unit / 1000
