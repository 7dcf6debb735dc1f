"""The memory of a step in which some kernels run again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from dmc.passes.scheduled.keep.step import Again, Step


@dataclass(frozen=True)
class Replay:
    """spans: by storage, the first and the last event that touches it. live: bytes at each place of the given order.
    peak: bytes. event: the one at the peak. place: where that is in the given order.

    A storage that is computed again has a second number, that of the first plus the number of storages.
    """

    spans: dict[int, tuple[int, int]]
    live: tuple[int, ...]
    peak: int
    event: int
    place: int

    def is_live(self, storage: int) -> bool:
        """Whether a storage is live at the peak."""
        first, last = self.spans.get(storage, (1, 0))
        return first <= self.event <= last

    def over(self, cap: int) -> int:
        """How far, and for how long, the step is over a cap."""
        return sum(max(0, live - cap) for live in self.live)


def replay(step: Step, again: Again) -> Replay:
    """The step in the given order, if kernels run again, each right before the first task that reads a second result.
    Linear in events and in what they touch.
    """
    graph, player = step.graph, _Player(step, again)
    for place, event in enumerate(graph.order):
        player.play(place, event)
    player.touch(graph.kept, len(player.places) - 1)
    size, count = len(graph.sizes), len(player.places)
    steps = [0] * (count + 1)
    for storage, (first, last) in player.spans.items():
        steps[first] += graph.sizes[storage % size]
        steps[last + 1] -= graph.sizes[storage % size]
    live = [graph.resident + held + own for held, own in zip(accumulate(steps), player.scratch, strict=False)]
    peak = max(range(count), key=live.__getitem__)
    own = dict(zip(player.places, live, strict=True))  # of several events at a place, the last is the task itself
    return Replay(player.spans, tuple(own.values()), live[peak], peak, player.places[peak])


@dataclass
class _Player:
    """places, scratch: of each event. done: the kernels that have run again."""

    step: Step
    again: Again
    spans: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    places: list[int] = field(default_factory=list[int])
    scratch: list[int] = field(default_factory=list[int])
    done: set[int] = field(default_factory=set[int])

    def play(self, place: int, event: int) -> None:
        tasks, count = self.step.graph.tasks, len(self.step.graph.sizes)
        task = tasks[event if event >= 0 else ~event]
        for maker in self.step.needed_again(self.again, task.reads, place, self.done):
            self.done.add(maker)
            own = tasks[maker]
            self._event(place, [*self._read(own.reads, place), *(each + count for each in own.writes)], own.scratch)
        self._event(place, [*self._read(task.reads, place), *task.writes], task.scratch if event >= 0 else 0)

    def _read(self, storages: Iterable[int], place: int) -> list[int]:
        """The numbers of what is read at a place."""
        count = len(self.step.graph.sizes)
        return [each + count if self.step.is_second(self.again, each, place) else each for each in storages]

    def _event(self, place: int, storages: Sequence[int], scratch: int) -> None:
        self.places.append(place)
        self.scratch.append(scratch)
        self.touch(storages, len(self.places) - 1)

    def touch(self, storages: Iterable[int], event: int) -> None:
        for each in storages:
            self.spans[each] = (self.spans[each][0] if each in self.spans else event, event)
