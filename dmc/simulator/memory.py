"""The contents of a rank's arenas over the time of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dmc.program import Buffer
from dmc.program.program import Space
from dmc.simulator.simulation import Simulation

# Categories that last for the whole step first, so that they are at the bottom of stacked plots.
_CATEGORIES = (
    "parameter",
    "optimizer",
    "state",
    "input",
    "output",
    "activation",
    "gradient",
    "communication",
    "scratch",
)


@dataclass(frozen=True)
class Profile:
    """The live bytes of one memory space: `times[i]` (ns) is when they become `live[i]`, by category, of `arena` bytes.

    categories: those that occur, permanent before temporary ones; each of `live` has a number for each of them.
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

    @cached_property
    def at_peak(self) -> dict[str, int]:
        """Live bytes at the peak, by category, largest first."""
        most = max(self.live, key=sum, default=())
        found = [(category, size) for category, size in zip(self.categories, most, strict=False) if size]
        return dict(sorted(found, key=lambda item: -item[1]))


def memory_over_time(simulation: Simulation, rank: int, space: Space = "device") -> Profile:
    """The live ranges of a rank's buffers. A buffer is live from the start of its first command to the end of its last.
    Where one overwrites another at the same offset, as new state does with old, the old one ends there.
    """
    program = simulation.programs[rank]
    buffers = [buffer for buffer in program.buffers if buffer.range.space == space]
    categories = tuple(sorted({buffer.category for buffer in buffers}, key=lambda name: (_order(name), name)))
    changes: dict[float, list[int]] = {0.0: [0] * len(categories)}
    for buffer, begin, end in _lifetimes(simulation, rank, buffers):
        column = categories.index(buffer.category)
        for time, size in ((begin, buffer.range.length), (end, -buffer.range.length)):
            changes.setdefault(time, [0] * len(categories))[column] += size
    times, live, now = [], [], (0,) * len(categories)
    for time in sorted(changes):
        now = tuple(size + change for size, change in zip(now, changes[time], strict=True))
        times.append(time)
        live.append(now)
    return Profile(rank, space, program.arenas.get(space, 0), categories, tuple(times), tuple(live))


def _order(category: str) -> int:
    return _CATEGORIES.index(category) if category in _CATEGORIES else len(_CATEGORIES)


def _lifetimes(simulation: Simulation, rank: int, buffers: list[Buffer]) -> Iterator[tuple[Buffer, float, float]]:
    starts, ends = _command_times(simulation, rank)
    begins_next: dict[int, float] = {}
    for buffer in sorted(buffers, key=lambda buffer: (buffer.first, buffer.last), reverse=True):
        begin, end = starts[buffer.first], ends[buffer.last]
        offset = buffer.range.offset
        end = min(end, begins_next.get(offset, end))
        begins_next[offset] = begin
        if begin < end:
            yield buffer, begin, end


def _command_times(simulation: Simulation, rank: int) -> tuple[list[float], list[float]]:
    """When each command begins and ends; for a record or an await, both are when the work before it on its lane
    ends."""
    program = simulation.programs[rank]
    spans = {span.command: span for span in simulation.by_rank[rank]}
    done = [0.0] * len(program.lanes)
    starts, ends = [], []
    for number, command in enumerate(program.commands):
        span = spans.get(number)
        starts.append(done[command.lane] if span is None else span.start)
        done[command.lane] = done[command.lane] if span is None else span.end
        ends.append(done[command.lane])
    return starts, ends
