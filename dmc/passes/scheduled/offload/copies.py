"""When values leave and return, so that kernels do not wait for the link to the host.

Each direction is a lane of its own, which copies one value after the other. A value leaves as soon as its lane is free;
it returns as late as possible, just in time for its reader. Copies start and are waited for between kernels.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmc.machine import Machine, move_ns
from dmc.passes.scheduled.offload.trips import Trip
from dmc.program import DEVICE, PINNED_HOST


@dataclass(frozen=True)
class Visit:
    """A trip in places of the given order. gone: where its leaving is waited for. begins: where its return starts.
    is_hidden: whether no kernel waits for it.
    """

    trip: Trip
    gone: int
    begins: int
    is_hidden: bool


def visits_of(clock: Sequence[float], trips: Sequence[Trip], machine: Machine) -> list[Visit]:
    """The places of some trips; `clock` is that of `clock_of`. What would have to return before it has left returns
    right behind that. Linear, but for sorting and searching.
    """
    left, begun = _left(clock, trips, machine), _begun(clock, trips, machine)
    found: list[Visit] = []
    for i, trip in enumerate(trips):
        gone = bisect_left(clock, left[i], trip.leaves + 1, trip.returns)
        begins = bisect_right(clock, begun[i], 0, trip.returns + 1) - 1
        found.append(Visit(trip, gone, max(gone, begins), gone <= begins))
    return found


def hidden(clock: Sequence[float], trips: Iterable[Trip], machine: Machine, waiting: int = 0) -> list[Trip]:
    """Of the trips those that together hide behind kernels, the longest first, as far as the host has memory, of which
    state takes `waiting` bytes."""
    found: list[Trip] = []
    # Host memory is allocated for each of two calls in flight, but for state once.
    room = (machine.device.memories[PINNED_HOST].bytes - waiting) // 2
    for trip in sorted(trips, key=lambda trip: (-trip.idle, trip.maker)):
        if trip.bytes <= room and all(each.is_hidden for each in visits_of(clock, [*found, trip], machine)):
            found.append(trip)
            room -= trip.bytes
    return found


def _left(clock: Sequence[float], trips: Sequence[Trip], machine: Machine) -> dict[int, float]:
    """By trip, when it has left, on the clock of the kernels."""
    found: dict[int, float] = {}
    free = 0.0
    for i in sorted(range(len(trips)), key=lambda i: (trips[i].leaves, i)):
        begin = max(free, clock[trips[i].leaves + 1])
        found[i] = free = begin + move_ns(machine, DEVICE, PINNED_HOST, trips[i].bytes)
    return found


def _begun(clock: Sequence[float], trips: Sequence[Trip], machine: Machine) -> dict[int, float]:
    """By trip, when its return begins, on the clock of the kernels."""
    found: dict[int, float] = {}
    busy = clock[-1]
    for i in sorted(range(len(trips)), key=lambda i: (trips[i].returns, i), reverse=True):
        end = min(busy, clock[trips[i].returns])
        found[i] = busy = end - move_ns(machine, PINNED_HOST, DEVICE, trips[i].bytes)
    return found
