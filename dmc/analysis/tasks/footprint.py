"""Device memory over an order of the tasks of a step."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.analysis.tasks.graph import Order, TaskGraph


@dataclass(frozen=True)
class Footprint:
    """Live bytes after each event of an order, arguments included; the peak and the event at which it is reached."""

    live: tuple[int, ...]
    peak: int
    place: int


def footprint(graph: TaskGraph, order: Order) -> Footprint:
    """Live memory along `order`, each value aligned, for an ideal packing.

    A kernel's operands, results and scratch are live while it runs; a movement's operand and result from its start to
    its wait. Linear in the number of events and of what they touch.
    """
    steps = [0] * (len(order) + 1)
    for storage, (first, last) in intervals(graph, order).items():
        steps[first] += graph.sizes[storage]
        steps[last + 1] -= graph.sizes[storage]
    live: list[int] = []
    held = graph.resident
    for event, step in zip(order, steps, strict=False):
        held += step
        live.append(held + (graph.tasks[event].scratch if event >= 0 else 0))
    place = max(range(len(live)), key=live.__getitem__, default=0)
    return Footprint(tuple(live), live[place] if live else graph.resident, place)


def intervals(graph: TaskGraph, order: Order) -> dict[int, tuple[int, int]]:
    """By storage, its live range in events of `order`; none for a storage without memory."""
    found: dict[int, tuple[int, int]] = {}
    for place, event in enumerate(order):
        task = graph.tasks[event if event >= 0 else ~event]
        for storage in (*task.reads, *task.writes):
            if graph.sizes[storage]:
                found[storage] = (found[storage][0] if storage in found else place, place)
    for storage in graph.kept:
        if storage in found:
            found[storage] = (found[storage][0], len(order) - 1)
    return found
