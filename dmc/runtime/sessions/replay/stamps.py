"""Times every command of a step on a GPU, by events that its lanes record before and after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from dmc.program.profile import Timed
from dmc.runtime.gpu.cuda_streams import CudaStreams

_COPIES, _COPIED = 200, 256


@dataclass
class Stamps:
    """The events of one step; they take their times anew whenever it runs.

    own: what two events add to a command between them, in nanoseconds. rounds: of the steps that were read, begin and
    end of each command.
    """

    device: CudaStreams
    rank: int
    own: float
    rounds: list[list[tuple[float, float]]] = field(default_factory=list[list[tuple[float, float]]])
    _first: Any = None
    _events: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])

    def begin(self) -> None:
        """Issued before the step."""
        self._events.clear()
        self._first = self.device.stamp(0)

    def stamp(self, lane: int, place: int) -> None:
        """Issued before and after the command at `place` of the program."""
        self._events.setdefault(place, []).append(self.device.stamp(lane))

    def read(self) -> None:
        """Reads the times of the step that has just ended."""
        device, first = self.device, self._first
        times = (
            (device.elapsed_ns(first, begin), device.elapsed_ns(first, end)) for begin, end in self._events.values()
        )
        self.rounds.append([(begin, max(begin, end - self.own)) for begin, end in times])

    def commands(self) -> tuple[Timed, ...]:
        """Each command, with the median of its begin, and of its time, over all rounds."""
        found: list[Timed] = []
        for place, times in zip(self._events, zip(*self.rounds, strict=True), strict=True):
            begin = median(begin for begin, _ in times)
            found.append(Timed(self.rank, place, begin, begin + _took(times)))
        return tuple(sorted(found, key=lambda each: (each.start, each.command)))


def own_ns(device: CudaStreams, capture: Callable[[Callable[[], None]], Callable[[], None]]) -> float:
    """What two events add to a short command between them, in nanoseconds: from copies of a few bytes."""
    room, pairs = device.allocate(2 * _COPIED), list[tuple[Any, Any]]()

    def copy() -> None:
        device.copy(0, room.ptr, room.ptr + _COPIED, _COPIED)

    def plain() -> None:
        for _ in range(_COPIES):
            copy()

    def stamped() -> None:
        pairs.clear()
        for _ in range(_COPIES):
            begin = device.stamp(0)
            copy()
            pairs.append((begin, device.stamp(0)))

    alone, timed = capture(plain), capture(stamped)
    for launch in (alone, timed):
        launch()
    timed()
    device.drain()
    with_events = median(device.elapsed_ns(begin, end) for begin, end in pairs)
    return max(0.0, with_events - 1e9 * device.seconds(alone) / _COPIES)


def _took(times: Sequence[tuple[float, float]]) -> float:
    return median(end - begin for begin, end in times)
