"""Orders of kernels by list scheduling: a free lane takes the ready task of highest priority.

The priority is the critical path to the end of the step, movements included, so that tasks on which collectives depend
go first and weight gradients, on which little depends, run while others wait (Lancet, arXiv 2404.19429). The critical
path ignores busy lanes; so the step is also scheduled backwards from its end by the critical path to the start, and any
schedule is justified: run backwards, which gives the latest start of each task, and forwards again in this order
(Valls, Ballestín and Quintanilla, "Justification and RCPSP", EJOR 165, 2005).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc.analysis.tasks.graph import Followers, TaskGraph
from dmc.passes.scheduled.schedule.picks import Pick, first, picks_within

ROUNDS = 2


@dataclass(frozen=True)
class _Played:
    begin: list[float]
    end: list[float]


def kernel_orders(graph: TaskGraph, base: list[int], followers: Followers, cap: int) -> Iterator[list[int]]:
    """Candidate orders of the kernels, which stay under the cap if `base` does. Near-linear in the number of tasks."""
    place = {index: place for place, index in enumerate(base)}
    as_in_base = [float(place.get(index, index)) for index in range(len(graph.tasks))]
    backwards = _latest(graph, followers, ways_here(graph))
    for seed in (as_in_base, longest_paths(graph, followers), backwards):
        played: _Played | None = None
        for _ in range(ROUNDS):
            priority = seed if played is None else _latest(graph, followers, played.end)
            played = _forward(graph, followers, priority, picks_within(graph, base, followers, cap))
            yield sorted(base, key=lambda index, played=played: (played.begin[index], place[index]))


def longest_paths(graph: TaskGraph, followers: Followers) -> list[float]:
    """For each task, the negated time from its start to the end of the step, if every lane were free."""
    found = [0.0] * len(graph.tasks)
    for index in range(len(graph.tasks) - 1, -1, -1):
        behind = min((found[each] for each in followers.of(index)), default=0.0)
        found[index] = behind - graph.tasks[index].ns
    return found


def _forward(graph: TaskGraph, followers: Followers, priority: Sequence[float], pick: Pick) -> _Played:
    befores = [len(task.needs) + len(task.after) for task in graph.tasks]
    behinds = [followers.of(index) for index in range(len(graph.tasks))]
    return _play(graph, priority, befores, behinds, pick)


def ways_here(graph: TaskGraph) -> list[float]:
    """For each task, the time from the start of the step to its end, if every lane were free."""
    found = [0.0] * len(graph.tasks)
    for index, task in enumerate(graph.tasks):
        found[index] = max((found[each] for each in (*task.needs, *task.after)), default=0.0) + task.ns
    return found


def _latest(graph: TaskGraph, followers: Followers, ends: Sequence[float]) -> list[float]:
    """The latest start of each task, counted from the end of the step, if tasks run as late as possible."""
    befores = [len(followers.of(index)) for index in range(len(graph.tasks))]
    behinds = [[*task.needs, *task.after] for task in graph.tasks]
    back = _play(graph, [-end for end in ends], befores, behinds, first)
    return [-end for end in back.end]


def _play(
    graph: TaskGraph,
    priority: Sequence[float],
    befores: list[int],
    behinds: Sequence[Sequence[int]],
    pick: Pick,
) -> _Played:
    """Runs all tasks, one at a time per lane. befores: the number of predecessors of each. behinds: its successors."""
    count = len(graph.tasks)
    played = _Played([0.0] * count, [0.0] * count)
    ready: dict[str, list[tuple[float, int]]] = {task.lane: [] for task in graph.tasks}
    busy: set[str] = set()
    ends: list[tuple[float, int]] = []
    arrived = [index for index in range(count) if not befores[index]]
    now = 0.0
    while arrived or ends:
        if not arrived:
            now, done = heapq.heappop(ends)
            busy.discard(graph.tasks[done].lane)
            arrived = _released(done, befores, behinds)
        for index in arrived:
            heapq.heappush(ready[graph.tasks[index].lane], (priority[index], index))
        arrived = []
        if ends and ends[0][0] <= now:
            continue  # All tasks that end now are processed before any is chosen.
        for index in _taken(ready, busy, pick):
            busy.add(graph.tasks[index].lane)
            played.begin[index], played.end[index] = now, now + graph.tasks[index].ns
            heapq.heappush(ends, (played.end[index], index))
    return played


def _taken(ready: dict[str, list[tuple[float, int]]], busy: set[str], pick: Pick) -> list[int]:
    """The tasks that free lanes take."""
    taken = [pick(queue) for lane, queue in ready.items() if queue and lane not in busy]
    return [index for index in taken if index is not None]


def _released(done: int, befores: list[int], behinds: Sequence[Sequence[int]]) -> list[int]:
    found: list[int] = []
    for index in behinds[done]:
        befores[index] -= 1
        if not befores[index]:
            found.append(index)
    return found
