"""Times every command of a step on a GPU, by events that its lanes record before and after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from dmc.program.profile import Timed
from dmc.runtime.cuda_streams import CudaStreams


@dataclass
class Stamps:
    """The events of one step; they take their times anew whenever it runs.

    rounds: of the steps that were read, begin and end of each command, in nanoseconds.
    """

    device: CudaStreams
    rank: int
    rounds: list[list[tuple[float, float]]] = field(default_factory=list[list[tuple[float, float]]])
    _first: Any = None
    _second: Any = None
    _events: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])

    def begin(self) -> None:
        """Issued first: two events with nothing between them, which shows what an event itself takes."""
        self._events.clear()
        self._first, self._second = self.device.stamp(0), self.device.stamp(0)

    def stamp(self, lane: int, place: int) -> None:
        """Issued before and after the command at `place` of the program."""
        self._events.setdefault(place, []).append(self.device.stamp(lane))

    def read(self) -> None:
        """Reads the times of the step that has just ended."""
        device, first = self.device, self._first
        own = device.elapsed_ns(first, self._second)
        times = (
            (device.elapsed_ns(first, begin), device.elapsed_ns(first, end)) for begin, end in self._events.values()
        )
        self.rounds.append([(begin, max(begin, end - own)) for begin, end in times])

    def commands(self) -> tuple[Timed, ...]:
        """Each command, with the median of its begin, and of its time, over all rounds."""
        found: list[Timed] = []
        for place, times in zip(self._events, zip(*self.rounds, strict=True), strict=True):
            begin = median(begin for begin, _ in times)
            found.append(Timed(self.rank, place, begin, begin + _took(times)))
        return tuple(sorted(found, key=lambda each: (each.start, each.command)))


def _took(times: Sequence[tuple[float, float]]) -> float:
    return median(end - begin for begin, end in times)
