"""Why a schedule hides the communication it hides, as a table of plain text."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dmc.analysis.tasks.footprint import Footprint
from dmc.analysis.tasks.graph import Order, TaskGraph
from dmc.analysis.tasks.timeline import Timeline
from dmc.passes.shared.report import print_table

HEAD = (
    "movement",
    "lane",
    "bytes",
    "µs",
    "started behind",
    "waited for before",
    "hidden µs",
    "exposed µs",
    "stopped by",
)
_END, _BEGIN = "the end", "the begin"


@dataclass(frozen=True)
class Limit:
    """The memory limit of an order in bytes, None for no limit, and its source."""

    bytes: int | None
    why: str

    def __str__(self) -> str:
        return self.why if self.bytes is None else f"limit {self.bytes:,} bytes ({self.why})"


def print_reasons(graph: TaskGraph, order: Order, time: Timeline, memory: Footprint, limit: Limit) -> None:
    """Prints, on stderr, one line per movement, in the order of starts, and one of sums."""
    kernels_before, kernels_behind = _neighbours(graph, order)
    places = {event: place for place, event in enumerate(order)}
    rows: list[tuple[str, ...]] = []
    for event in order:
        if event < 0 or not graph.tasks[event].is_movement:
            continue
        task, stall = graph.tasks[event], min(time.stalls[event], graph.tasks[event].ns)
        before, behind = kernels_before[places[event]], kernels_behind[places[~event]]
        rows.append(
            (
                task.label,
                task.lane,
                f"{task.bytes:,}",
                _us(task.ns),
                _BEGIN if before is None else graph.tasks[before].label,
                _END if behind is None else graph.tasks[behind].label,
                _us(task.ns - stall),
                _us(time.stalls[event]),
                _stopped_by(graph, event, before, time, memory, limit, places) if stall else "",
            )
        )
    print_table(HEAD, rows)
    moving = sum(task.ns for task in graph.tasks if task.is_movement)
    sums = f"step {_us(time.total)} µs, movements {_us(moving)} µs, of which exposed {_us(time.exposed)} µs; "
    print(f"{sums}peak {memory.peak:,} bytes, {limit}", file=sys.stderr)


def _neighbours(graph: TaskGraph, order: Order) -> tuple[list[int | None], list[int | None]]:
    """For each event, the kernel before and the kernel after it."""
    before: list[int | None] = []
    behind: list[int | None] = []
    for found, events in ((before, order), (behind, reversed(order))):
        last: int | None = None
        for event in events:
            found.append(last)
            last = event if event >= 0 and not graph.tasks[event].is_movement else last
    return before, behind[::-1]


def _stopped_by(
    graph: TaskGraph,
    event: int,
    before: int | None,
    time: Timeline,
    memory: Footprint,
    limit: Limit,
    places: dict[int, int],
) -> str:
    """What kept a movement from starting earlier."""
    task, other = graph.tasks[event], time.held_by[event]
    if other is not None:
        return f"lane busy with {graph.tasks[other].label}"
    if before is None:
        return "the step begins"
    if before in task.needs:
        return f"needs {graph.tasks[before].label}"
    waited = [each for each in task.needs if graph.tasks[each].is_movement and time.end[each] >= time.begin[event]]
    if waited:
        return f"needs {graph.tasks[waited[0]].label}"
    size = sum(graph.sizes[each] for each in task.writes)
    if limit.bytes is not None and memory.live[places[before]] + size > limit.bytes:
        return f"memory limit at {graph.tasks[before].label}"
    return "the given order"


def _us(ns: float) -> str:
    return f"{ns / 1000:.1f}"
