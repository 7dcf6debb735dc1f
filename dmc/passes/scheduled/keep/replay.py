"""The memory of a step in which some kernels of the forward pass run again for the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from dmc.analysis.tasks.graph import TaskGraph
from dmc.passes.scheduled.keep.forward import Forward


@dataclass(frozen=True)
class Replay:
    """spans: by storage, the first and the last event that touches it. peak: bytes. place: the event at the peak.

    A storage that is computed again has a second number, that of the first plus the number of storages.
    """

    spans: dict[int, tuple[int, int]]
    peak: int
    place: int

    def is_live(self, storage: int) -> bool:
        """Whether a storage is live at the peak."""
        first, last = self.spans.get(storage, (1, 0))
        return first <= self.place <= last


def replay(graph: TaskGraph, forward: Forward, again: frozenset[int]) -> Replay:
    """The step in the given order, if the kernels `again` run again, each right before the first task of the backward
    pass that reads what it computes. Linear in events and in what they touch.
    """
    player = _Player(graph, forward, again)
    for event in graph.order:
        player.play(event if event >= 0 else ~event, begins=event >= 0)
    for storage in graph.kept:
        player.touch([storage], len(player.scratch) - 1)
    size, count = len(graph.sizes), len(player.scratch)
    steps = [0] * (count + 1)
    for storage, (first, last) in player.spans.items():
        steps[first] += graph.sizes[storage % size]
        steps[last + 1] -= graph.sizes[storage % size]
    live = [held + own for held, own in zip(accumulate(steps), player.scratch, strict=False)]
    place = max(range(count), key=live.__getitem__, default=0)
    return Replay(player.spans, graph.resident + (live[place] if live else 0), place)


def needed_again(
    graph: TaskGraph, forward: Forward, again: frozenset[int], storages: Iterable[int], done: set[int]
) -> list[int]:
    """The kernels that must run again before `storages` can be read, in order, without those `done`."""
    found: set[int] = set()
    pending = list(storages)
    while pending:
        maker = forward.makers.get(pending.pop())
        if maker in again and maker not in done and maker not in found:
            found.add(maker)
            pending += graph.tasks[maker].reads
    return sorted(found)


@dataclass
class _Player:
    graph: TaskGraph
    forward: Forward
    again: frozenset[int]
    spans: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    scratch: list[int] = field(default_factory=list[int])
    done: set[int] = field(default_factory=set[int])

    def play(self, index: int, begins: bool) -> None:
        task = self.graph.tasks[index]
        if index in self.forward.tasks:
            self._event((*task.reads, *task.writes), task.scratch if begins else 0)
            return
        for maker in needed_again(self.graph, self.forward, self.again, task.reads, self.done):
            self.done.add(maker)
            own = self.graph.tasks[maker]
            self._event((*self._second(own.reads), *self._second(own.writes)), own.scratch)
        self._event((*self._second(task.reads), *task.writes), task.scratch if begins else 0)

    def _second(self, storages: Iterable[int]) -> list[int]:
        """The numbers under which the backward pass knows storages."""
        count = len(self.graph.sizes)
        return [each + count if self.forward.makers.get(each) in self.again else each for each in storages]

    def _event(self, storages: Sequence[int], scratch: int) -> None:
        self.scratch.append(scratch)
        self.touch(storages, len(self.scratch) - 1)

    def touch(self, storages: Iterable[int], place: int) -> None:
        for each in storages:
            self.spans[each] = (self.spans[each][0] if each in self.spans else place, place)
