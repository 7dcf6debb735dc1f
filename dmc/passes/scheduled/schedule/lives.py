"""Live ranges of storages if kernels run in a given order and each movement is where it holds the least memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

from dmc.analysis.tasks.graph import TaskGraph
from dmc.passes.scheduled.schedule.bounds import Bounds
from dmc.passes.scheduled.schedule.room import Room


def lives_of(graph: TaskGraph, kernels: Sequence[int], bounds: Bounds) -> tuple[dict[int, tuple[int, int]], Room]:
    """By storage its first and last place, and the bytes in use at every place, arguments included.

    Places are those of `bounds`. Linear in the tasks' reads and writes.
    """
    place_of = [2 * gap for gap in bounds.quiet]
    for place, index in enumerate(kernels):
        place_of[index] = 2 * place + 1
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, task in sorted(zip(place_of, graph.tasks, strict=True), key=itemgetter(0)):
        for storage in (*task.reads, *task.writes):
            first.setdefault(storage, place)
            last[storage] = place
    lives = {storage: (place, last[storage]) for storage, place in first.items()}
    for storage in graph.kept:
        if storage in lives:
            lives[storage] = (lives[storage][0], 2 * len(kernels))
    steps = [0] * (2 * len(kernels) + 2)
    for storage, (begin, end) in lives.items():
        steps[begin] += graph.sizes[storage]
        steps[end + 1] -= graph.sizes[storage]
    used = list(accumulate(steps))[:-1]
    for index in kernels:
        used[place_of[index]] += graph.tasks[index].scratch
    return lives, Room([bytes + graph.resident for bytes in used])
