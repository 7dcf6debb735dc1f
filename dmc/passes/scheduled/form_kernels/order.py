"""The order of kernels and movements in a step."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence

from dmc._mlir import ir
from dmc.analysis.kernels.cost import work_of
from dmc.analysis.kernels.graph import Graph, Kind
from dmc.analysis.kernels.reads import memory_reads, sources

# Indices of operations of a Graph, ascending.
Group = tuple[int, ...]

_SUMS = ("matmul", "reduction")
_BEHIND = 0.5  # A place is the index of an operation, or between two.


def ordered(graph: Graph, units: Sequence[Group], replaced: Mapping[ir.Value, ir.Value]) -> list[Group]:
    """The units in a topological order, each as close as possible to its place, or to the first that needs it.

    A unit whose place is in the backward pass may be needed in the forward pass: until it runs, nothing of the backward
    pass may, although its operands exist.

    replaced: new values of state that need not wait for the end of the step, and the arguments that they replace.
    """
    unit_of = {number: i for i, unit in enumerate(units) for number in unit}
    before = [
        {unit_of[source] for number in unit for source in _sources(graph, number) if source in unit_of} - {i}
        for i, unit in enumerate(units)
    ]
    makers = {old: unit_of.get(graph.made_by.get(graph.base(new), -1)) for new, old in replaced.items()}
    overwritten = {old: i for old, i in makers.items() if i is not None and _has_product(graph, units[i])}
    places = _places(graph, units, before, overwritten)
    for i in reversed(_sorted(before, places)):
        for j in before[i]:
            places[j] = min(places[j], places[i])
    return [units[i] for i in _sorted(before, places)]


def _sources(graph: Graph, number: int) -> Iterator[int]:
    """What computes or moves the operands of an operation; of a movement also constants, which it needs in memory."""
    yield from sources(graph, number)
    if graph.kinds[number] is Kind.MOVEMENT:
        yield from (
            graph.made_by[base] for value in graph.reads[number] if (base := graph.base(value)) in graph.made_by
        )


def _has_product(graph: Graph, unit: Group) -> bool:
    return any(_kind(graph, number) == "matmul" for number in unit)


def _places(
    graph: Graph, units: Sequence[Group], before: Sequence[Collection[int]], overwritten: Mapping[ir.Value, int]
) -> list[float]:
    """The place of each unit: that of its last operation.

    The product of a gradient would wait for the update in its kernel, and what it multiplies would wait in memory. So
    what overwrites state in such a kernel is placed behind the products, sums and movements that it needs, and behind
    the other readers of the state, which then needs no copy. overwritten: the state, by argument, and these units.
    """
    places: list[float] = [unit[-1] for unit in units]
    if not overwritten:
        return places
    needed = _needed(graph, units, before, _sorted(before, places))
    for i in overwritten.values():
        places[i] = needed[i]
    behind = dict.fromkeys(overwritten.values(), 0.0)
    for i, unit in enumerate(units):
        read = {each.base for number in unit for each in memory_reads(graph, number)}
        for j in {overwritten[base] for base in read if base in overwritten} - {i}:
            behind[j] = max(behind[j], places[i] + _BEHIND)
    for j, place in behind.items():
        places[j] = max(places[j], place)
    return places


def _needed(graph: Graph, units: Sequence[Group], before: Sequence[Collection[int]], order: Sequence[int]) -> list[int]:
    """For each unit the last operation, of its own or of those before it, that is not elementwise. order: of units."""
    found = [-1 for _ in units]
    for i in order:
        own = (number for number in units[i] if graph.kinds[number] is Kind.MOVEMENT or _kind(graph, number) in _SUMS)
        found[i] = max((*own, *(found[j] for j in before[i])), default=-1)
    return found


def _kind(graph: Graph, number: int) -> str:
    return graph.fact(work_of, number).kind


def _sorted(before: Sequence[Collection[int]], places: Sequence[float]) -> list[int]:
    """A topological order; among the units that may be next, the one of the first place (Kahn's algorithm)."""
    after: Mapping[int, list[int]] = {i: [] for i in range(len(before))}
    for i, earlier in enumerate(before):
        for j in earlier:
            after[j].append(i)
    waiting = [len(earlier) for earlier in before]
    ready = [(places[i], i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for j in after[i]:
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, (places[j], j))
    assert len(order) == len(before), "kernels that depend on each other"
    return order
