"""When the tasks of a step run on one rank, for a given order of issue. All ranks run the same program.

The model is that of streams: every lane runs its tasks in order; a movement begins when its lane is free and the
kernels issued before it are done; a wait blocks the compute lane until the movement is done. The actual plan has events
only where bytes conflict, a subset of these, so it is never slower. Lanes do not slow each other down.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmc.analysis.tasks.graph import COMPUTE, Order, TaskGraph


@dataclass(frozen=True)
class Timeline:
    """In nanoseconds. begin, end: of each task. stalls: how long the compute lane waited for each movement.

    held_by: for each movement, the one it queued behind, None if it began when issued. total: the step.
    """

    begin: tuple[float, ...]
    end: tuple[float, ...]
    stalls: tuple[float, ...]
    held_by: tuple[int | None, ...]
    total: float

    @property
    def exposed(self) -> float:
        """How long movements stall the compute lane."""
        return sum(self.stalls)


def timeline(graph: TaskGraph, order: Order) -> Timeline:
    """Simulates `order`. Linear in the number of events."""
    count = len(graph.tasks)
    begin, end, stalls = [0.0] * count, [0.0] * count, [0.0] * count
    held_by: list[int | None] = [None] * count
    last: dict[str, int] = {}
    now = 0.0  # of the compute lane
    for event in order:
        if event < 0:
            stalls[~event] = max(0.0, end[~event] - now)
            now += stalls[~event]
            continue
        task = graph.tasks[event]
        begin[event] = now
        for other in (*task.after, *([last[task.lane]] if task.lane in last else [])):
            if end[other] > begin[event]:
                begin[event], held_by[event] = end[other], other
        last[task.lane] = event
        end[event] = begin[event] + task.ns
        now = now if task.is_movement else end[event]
    return Timeline(tuple(begin), tuple(end), tuple(stalls), tuple(held_by), max([now, *end]))


def busy(graph: TaskGraph, lane: str = COMPUTE) -> float:
    """How long a lane is busy."""
    return sum(task.ns for task in graph.tasks if task.lane == lane)
