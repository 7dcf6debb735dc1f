"""A step whose kernels may run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dmc.analysis.storage.pieces import is_packed
from dmc.analysis.tasks.graph import TaskGraph

# Kernels that run again, each with a place in the given order: what runs behind it reads the second results.
Again: TypeAlias = Mapping[int, int]


@dataclass(frozen=True)
class Step:
    """makers: by storage, the kernel that computes it and may run again."""

    graph: TaskGraph
    makers: Mapping[int, int]

    def kernels(self) -> tuple[int, ...]:
        """The kernels that may run again."""
        return tuple(dict.fromkeys(self.makers.values()))

    def is_second(self, again: Again, storage: int, place: int) -> bool:
        """Whether what runs at `place` reads the second copy of a storage."""
        maker = self.makers.get(storage)
        return maker is not None and maker in again and place > again[maker]

    def needed_again(self, again: Again, storages: Iterable[int], place: int, done: Collection[int]) -> list[int]:
        """The kernels that must run again before `storages` can be read at `place`, in order, without those `done`."""
        found: set[int] = set()
        pending = list(storages)
        while pending:
            storage = pending.pop()
            if self.is_second(again, storage, place):
                maker = self.makers[storage]
                if maker not in done and maker not in found:
                    found.add(maker)
                    pending += self.graph.tasks[maker].reads
        return sorted(found)


def step_of(graph: TaskGraph) -> Step:
    """Finds the kernels that may run again. Linear.

    All of their results are whole values in memory of their own: no new state, which replaces an argument, nothing
    that a bucket contains or that the step returns.
    """
    writers = Counter(storage for task in graph.tasks for storage in task.writes)
    kept = set(graph.kept)
    makers: dict[int, int] = {}
    for index, task in enumerate(graph.tasks):
        is_free = len(task.writes) == len(task.op.results) and all(
            graph.sizes[each] and writers[each] == 1 and each not in kept and each not in task.reads
            for each in task.writes
        )
        if not task.is_movement and is_free and not is_packed(task.op.results):
            makers.update(dict.fromkeys(task.writes, index))
    return Step(graph, makers)
