"""Values that may be in host memory while nothing touches them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from dmc._mlir import ir
from dmc.analysis.requests.keeping import NOT_FORWARD
from dmc.analysis.storage.pieces import is_packed
from dmc.analysis.tasks.graph import Task, TaskGraph
from dmc.analysis.tasks.storages import aligned_bytes
from dmc.dialect.labels import kernel_label_of


@dataclass(frozen=True)
class Trip:
    """A value that the forward pass leaves to the backward pass.

    maker, number: the kernel that computes it, as a task, and which of its results it is. leaves: the last place of the
    given order before the longest time in which nothing touches it. returns: the first place behind that, of a task
    that reads it. idle: that time, in nanoseconds.
    """

    value: ir.Value
    maker: int
    number: int
    bytes: int
    leaves: int
    returns: int
    idle: float


def trips_of(graph: TaskGraph) -> list[Trip]:
    """All trips, in the order of their makers. Linear.

    Of results of kernels, except for new state, members of buckets, what shares its memory with something else, and
    scalars, which are no activations (whether a loss is finite waits for the updates).
    """
    writers = Counter(storage for task in graph.tasks for storage in task.writes)
    touches, kept = _touches(graph), set(graph.kept)
    clock = clock_of(graph)
    found: list[Trip] = []
    for index, task in enumerate(graph.tasks):
        is_apart = not task.is_movement and len(task.writes) == len(task.op.results)
        if not is_apart or kernel_label_of(task.op).endswith(NOT_FORWARD):
            continue
        for number, (value, storage) in enumerate(zip(task.op.results, task.writes, strict=True)):
            is_alone = writers[storage] == 1 and storage not in kept and storage not in task.reads
            is_whole = graph.sizes[storage] == aligned_bytes(value.type)
            is_scalar = not ir.RankedTensorType(value.type).rank
            if not (is_alone and is_whole) or is_scalar or is_packed([value]):
                continue
            leaves, returns = _longest_pause(touches[storage], clock)
            idle = clock[returns] - clock[leaves + 1]
            trip = Trip(value, index, number, graph.sizes[storage], leaves, returns, idle)
            if trip.idle > 0 and _is_read_later(graph, trip):
                found.append(trip)
    return found


def clock_of(graph: TaskGraph) -> list[float]:
    """The time of all kernels before each place of the given order, and before its end."""
    return [0.0, *accumulate(_kernel_ns(graph, event) for event in graph.order)]


def task_at(graph: TaskGraph, place: int) -> Task:
    """The task that begins, or is waited for, at a place of the given order."""
    event = graph.order[place]
    return graph.tasks[event if event >= 0 else ~event]


def _kernel_ns(graph: TaskGraph, event: int) -> float:
    return graph.tasks[event].ns if event >= 0 and not graph.tasks[event].is_movement else 0.0


def _touches(graph: TaskGraph) -> list[list[int]]:
    """The places at which each storage is touched, in order."""
    found: list[list[int]] = [[] for _ in graph.sizes]
    for place in range(len(graph.order)):
        task = task_at(graph, place)
        for storage in dict.fromkeys((*task.reads, *task.writes)):
            found[storage].append(place)
    return found


def _longest_pause(places: Sequence[int], clock: Sequence[float]) -> tuple[int, int]:
    """Of neighbours among `places`, those with the longest time of kernels in between."""
    pairs = [*pairwise(places)] or [(places[0], places[0])]
    return max(pairs, key=lambda pair: clock[pair[1]] - clock[pair[0] + 1])


def _is_read_later(graph: TaskGraph, trip: Trip) -> bool:
    """Whether the backward pass reads it next."""
    return kernel_label_of(task_at(graph, trip.returns).op).endswith(NOT_FORWARD)
