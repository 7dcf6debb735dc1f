"""The contents of a rank's arenas over the time of a step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dmc.program import Buffer, Space, accesses
from dmc.program.categories import CATEGORIES
from dmc.program.interval_map import IntervalMap
from dmc.simulator.simulation import Simulation, Span


@dataclass(frozen=True)
class Profile:
    """The live bytes of one memory space: `times[i]` (ns) is when they become `live[i]`, by category, of `arena` bytes.

    categories: those that occur; each of `live` has a number for each of them.
    """

    rank: int
    space: Space
    arena: int
    categories: tuple[str, ...]
    times: tuple[float, ...]
    live: tuple[tuple[int, ...], ...]

    @cached_property
    def peak(self) -> int:
        """The peak of live bytes."""
        return max(map(sum, self.live), default=0)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the categories."""
        return tuple(CATEGORIES[category] for category in self.categories)

    @cached_property
    def at_peak(self) -> dict[str, int]:
        """Live bytes at the peak, by the name of their category, largest first."""
        most = max(self.live, key=sum, default=())
        found = [(name, size) for name, size in zip(self.names, most, strict=False) if size]
        return dict(sorted(found, key=lambda item: -item[1]))


def memory_over_time(simulation: Simulation, rank: int, space: Space = "device") -> Profile:
    """What the buffers of a rank hold. A buffer is live from when the first command that touches it starts to when the
    last one ends, and one that a step begins or ends with from its beginning or to its end. Where another takes its
    place before, as new state does of old, the bytes are the other's.
    """
    program = simulation.programs[rank]
    buffers = [buffer for buffer in program.buffers if buffer.range.space == space]
    occurring = {buffer.category for buffer in buffers}
    categories = tuple(category for category in CATEGORIES if category in occurring)
    live, history = Counter[str](), {0.0: (0,) * len(categories)}
    holders: IntervalMap[Buffer | None] = IntervalMap(None)
    for time, buffer, is_begin in _changes(simulation, rank, buffers):
        found = holders.pieces(buffer.range)
        for start, end, holder in found:
            if holder is not None and (is_begin or holder is buffer):
                live[holder.category] -= end - start
        if is_begin:
            live[buffer.category] += buffer.range.length
            holders.set(buffer.range, [buffer])
        else:
            holders.set(buffer.range, [None if holder is buffer else holder for _, _, holder in found])
        history[time] = tuple(live[category] for category in categories)
    return Profile(rank, space, program.arenas.get(space, 0), categories, tuple(history), tuple(history.values()))


def _changes(simulation: Simulation, rank: int, buffers: Sequence[Buffer]) -> list[tuple[float, Buffer, bool]]:
    """When each buffer begins (True) and ends, in order of time."""
    spans = sorted(simulation.by_rank[rank], key=lambda span: span.command)
    uses = _uses(simulation, spans)
    first, last = (spans[0].command, spans[-1].command) if spans else (0, 0)
    changes: list[tuple[float, Buffer, bool]] = []
    for buffer in sorted(buffers, key=lambda buffer: (buffer.first, buffer.last)):
        # Lanes run side by side: other commands between its first and its last one say nothing about its time.
        is_first, is_last = buffer.first <= first, buffer.last >= last
        # Most of what is there all the time is state; its uses are those of the whole step.
        starts, ends = ([], []) if is_first and is_last else _touching(uses, buffer)
        begin = 0.0 if is_first else min(starts, default=math.inf)
        end = simulation.step_ns if is_last else max(ends, default=0.0)
        if begin < end:
            changes += (begin, buffer, True), (end, buffer, False)
    return sorted(changes, key=lambda change: change[0])


_Uses = dict[Space, tuple[NDArray[np.int64], NDArray[np.float64]]]


def _uses(simulation: Simulation, spans: Sequence[Span]) -> _Uses:
    """For each memory space, in order of commands: the command, offset and end of each range that one touches; and when
    the command starts and ends."""
    found: dict[Space, list[tuple[tuple[int, int, int], tuple[float, float]]]] = {}
    for span in spans:
        for place in chain(*accesses(simulation.work(span))):
            use = (span.command, place.offset, place.end), (span.start, span.end)
            found.setdefault(place.space, []).append(use)
    return {
        space: (np.array([where for where, _ in uses], np.int64), np.array([when for _, when in uses], np.float64))
        for space, uses in found.items()
    }


def _touching(uses: _Uses, buffer: Buffer) -> tuple[list[float], list[float]]:
    """When the commands that touch a buffer start, and when they end."""
    if buffer.range.space not in uses:
        return [], []
    where, when = uses[buffer.range.space]
    # One buffer after another uses a place.
    own = slice(*np.searchsorted(where[:, 0], (buffer.first, buffer.last + 1)))
    _, offset, end = where[own].T
    starts, ends = when[own][(offset < buffer.range.end) & (end > buffer.range.offset)].T
    return starts.tolist(), ends.tolist()
