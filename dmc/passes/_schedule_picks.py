"""How a list scheduler takes the next task of a lane."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from dmc.analysis.task_graph import TaskGraph

# Takes one entry out of a lane's heap of (priority, task), and gives the task.
Pick = Callable[[list[tuple[float, int]]], int]

# So many tasks are looked at for one that fits: more would make scheduling quadratic.
LOOKED_AT = 16


def first(queue: list[tuple[float, int]]) -> int:
    """What matters most."""
    return heapq.heappop(queue)[1]


def picks_below(graph: TaskGraph, cap: int) -> Pick:
    """What matters most among the first `LOOKED_AT` with which no more than `cap` bytes are in use.

    Where none fits, the one that leaves least behind. Memory is counted as if movements were started right before they
    are read: what a gather delivers is taken by its first reader.
    """
    counted = _Counted(graph, cap)

    def pick(queue: list[tuple[float, int]]) -> int:
        entry = counted.choose([heapq.heappop(queue) for _ in range(min(LOOKED_AT, len(queue)))], queue)
        counted.run(entry)
        return entry

    return pick


class _Counted:
    """The bytes in use as tasks begin. readers: how many tasks have yet to read a storage; one that is kept has one."""

    def __init__(self, graph: TaskGraph, cap: int) -> None:
        self.graph, self.cap, self.live = graph, cap, graph.resident
        self.taken: set[int] = set()
        self.readers = [0] * len(graph.sizes)
        for task in graph.tasks:
            for storage in task.reads:
                self.readers[storage] += 1
        for storage in graph.kept:
            self.readers[storage] += 1

    def choose(self, entries: list[tuple[float, int]], queue: list[tuple[float, int]]) -> int:
        """One of `entries`; the others go back into the queue."""
        needed = [self._needed(index) for _, index in entries]
        fitting = (place for place, size in enumerate(needed) if self.live + size <= self.cap)
        left = [size - self._freed(index) for size, (_, index) in zip(needed, entries, strict=True)]
        chosen = next(fitting, left.index(min(left)))
        for place, entry in enumerate(entries):
            if place != chosen:
                heapq.heappush(queue, entry)
        return entries[chosen][1]

    def run(self, index: int) -> None:
        """The task takes and frees what it does."""
        task = self.graph.tasks[index]
        if not task.is_movement:
            new = self._new(index)
            self.taken.update(new)
            self.live += sum(self.graph.sizes[each] for each in new)
        for storage in task.reads:
            self.readers[storage] -= 1
            if not self.readers[storage] and storage in self.taken:
                self.live -= self.graph.sizes[storage]

    def _needed(self, index: int) -> int:
        new = sum(self.graph.sizes[each] for each in self._new(index))
        return 0 if self.graph.tasks[index].is_movement else new + self.graph.tasks[index].scratch

    def _freed(self, index: int) -> int:
        reads = self.graph.tasks[index].reads
        return sum(self.graph.sizes[each] for each in reads if self.readers[each] == 1 and each in self.taken)

    def _new(self, index: int) -> list[int]:
        task = self.graph.tasks[index]
        return [each for each in dict.fromkeys((*task.reads, *task.writes)) if each not in self.taken]
