"""Live ranges of storages if kernels run in a given order and each movement is where it holds the least memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from dmc.analysis.tasks.graph import TaskGraph
from dmc.passes.scheduled.schedule.bounds import Bounds
from dmc.passes.scheduled.schedule.room import Room


def lives_of(graph: TaskGraph, kernels: Sequence[int], bounds: Bounds) -> tuple[dict[int, tuple[int, int]], Room]:
    """By storage its first and last place, and the bytes in use at every place, arguments included.

    Places are those of `bounds`. Linear in the tasks' reads and writes.
    """
    position = {index: place for place, index in enumerate(kernels)}
    lives: dict[int, tuple[int, int]] = {}
    for index, task in enumerate(graph.tasks):
        place = 2 * bounds.quiet[index] if task.is_movement else 2 * position[index] + 1
        for storage in (*task.reads, *task.writes):
            first, last = lives.get(storage, (place, place))
            lives[storage] = (min(first, place), max(last, place))
    for storage in graph.kept:
        if storage in lives:
            lives[storage] = (lives[storage][0], 2 * len(kernels))
    steps = [0] * (2 * len(kernels) + 2)
    for storage, (first, last) in lives.items():
        steps[first] += graph.sizes[storage]
        steps[last + 1] -= graph.sizes[storage]
    used = list(accumulate(steps))[:-1]
    for index, place in position.items():
        used[2 * place + 1] += graph.tasks[index].scratch
    return lives, Room([bytes + graph.resident for bytes in used])
