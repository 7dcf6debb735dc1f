"""What dm-offload prints: what the forward pass leaves to the backward pass, and where it is in between."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from dmc.analysis.tasks.graph import TaskGraph
from dmc.machine import Machine, move_ns
from dmc.passes.scheduled.offload.trips import Trip
from dmc.passes.shared.report import print_table, starred
from dmc.program import DEVICE, PINNED_HOST

HEAD = ("results of", "values", "bytes", "µs not touched", "µs of copies", "decision")


def print_reasons(
    graph: TaskGraph, trips: Sequence[Trip], requested: Sequence[Trip], chosen: Sequence[Trip], machine: Machine
) -> None:
    """Prints on stderr each value that could be in host memory, equal ones as one row, the largest first; and the sum.

    The time not touched is the shortest of a row, the time of copies that of all its values.
    """
    rows: Counter[tuple[str, int, str]] = Counter()
    idle: dict[tuple[str, int, str], float] = {}
    for trip in trips:
        label = starred(graph.tasks[trip.maker].label)
        key = (label, trip.bytes, _decision(trip, requested, chosen))
        rows[key] += 1
        idle[key] = min(trip.idle, idle.get(key, trip.idle))
    ordered = sorted(rows.items(), key=lambda row: (-row[0][1] * row[1], row[0]))
    print_table(HEAD, [_row(key, count, idle[key], machine) for key, count in ordered])
    size, ns = sum(trip.bytes for trip in chosen), sum(round_trip_ns(machine, trip.bytes) for trip in chosen)
    print(f"{size:,} bytes leave, {ns / 1000:.1f} µs of copies", file=sys.stderr)


def _decision(trip: Trip, requested: Sequence[Trip], chosen: Sequence[Trip]) -> str:
    if trip in requested:
        return "offloaded: requested"
    return "offloaded: memory cap" if trip in chosen else "kept"


def _row(key: tuple[str, int, str], count: int, idle: float, machine: Machine) -> tuple[object, ...]:
    label, size, decision = key
    ns = count * round_trip_ns(machine, size)
    return label, count, f"{size * count:,}", f"{idle / 1000:.1f}", f"{ns / 1000:.1f}", decision


def round_trip_ns(machine: Machine, size: int) -> float:
    """How long this many bytes take to host memory and back."""
    return move_ns(machine, DEVICE, PINNED_HOST, size) + move_ns(machine, PINNED_HOST, DEVICE, size)
