"""The gaps between kernels where each movement may be, for a fixed order of kernels.

With n kernels there are n + 1 gaps: gap g is before kernel g, gap n after the last. Live ranges use finer places: place
2g is gap g, place 2k + 1 is kernel k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc.analysis.tasks.graph import Followers, TaskGraph


@dataclass(frozen=True)
class Bounds:
    """By task, for movements only: the first and the last gap in which it may be started and waited for.

    is_eager: whether it is best started at once because that frees memory: it ends the live range of its operands, and
    its result is no larger. quiet: the gap where it holds the least memory, if started and waited for there.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    is_eager: tuple[bool, ...]
    quiet: tuple[int, ...]


def bounds_of(graph: TaskGraph, kernels: Sequence[int], followers: Followers) -> Bounds:
    """The bounds when `kernels`, the tasks of the compute lane, run in this order. Linear."""
    position = {index: place for place, index in enumerate(kernels)}
    first, last = _first(graph, position), _last(graph, position, followers)
    dies = _last_reads(graph, position)
    is_eager = [False] * len(graph.tasks)
    quiet = [0] * len(graph.tasks)
    for index, task in enumerate(graph.tasks):
        if not task.is_movement:
            continue
        freed = sum(graph.sizes[each] for each in task.reads if dies.get(each, -1) < first[index])
        taken = sum(graph.sizes[each] for each in task.writes if each not in task.reads)
        is_eager[index] = freed >= taken
        chained = [quiet[each] for each in (*task.needs, *task.after) if graph.tasks[each].is_movement]
        quiet[index] = max([first[index], *chained]) if is_eager[index] else last[index]
    return Bounds(tuple(first), tuple(last), tuple(is_eager), tuple(quiet))


def _first(graph: TaskGraph, position: dict[int, int]) -> list[int]:
    found = [0] * len(graph.tasks)
    for index, task in enumerate(graph.tasks):
        for each in (*task.needs, *task.after):
            before = position[each] + 1 if each in position else found[each]
            if before > found[index]:
                found[index] = before
    return found


def _last(graph: TaskGraph, position: dict[int, int], followers: Followers) -> list[int]:
    found = [len(position)] * len(graph.tasks)
    for index in range(len(graph.tasks) - 1, -1, -1):
        for each in followers.of(index):
            behind = position[each] if each in position else found[each]
            if behind < found[index]:
                found[index] = behind
    return found


def _last_reads(graph: TaskGraph, position: dict[int, int]) -> dict[int, int]:
    """By storage, the last kernel that reads it; storage live at the end is read after the last."""
    found = dict.fromkeys(graph.kept, len(position))
    for index, place in position.items():
        for storage in graph.tasks[index].reads:
            if found.get(storage, -1) < place:
                found[storage] = place
    return found
