"""Which kernels run again, so that a step fits under a cap.

Greedy: the kernel whose results, live at the peak, free the most bytes per nanosecond of running it again behind the
peak, together with the kernels whose results it needs and nothing else holds; among equals the first, whose results are
held longest, so that of equal layers as many as necessary run again. A choice that does not lower what is highest is
passed over. What turns out to be unnecessary in the end is kept after all, the most expensive first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

from dmc.passes.scheduled.keep.replay import Replay, replay
from dmc.passes.scheduled.keep.step import Again, Step
from dmc.passes.scheduled.keep.words import Wanted

_SLICE = 16  # of the peak, this part is lowered next


@dataclass(frozen=True)
class Choice:
    """The kernels that run again, and the peak of live bytes with them."""

    again: Again
    peak: int


@dataclass(frozen=True)
class Offer:
    """Kernels that may run again together: bytes that this frees at the peak, and its time."""

    kernels: frozenset[int]
    bytes: int
    ns: float


def choose(step: Step, wanted: Wanted, cap: int) -> Choice:
    """The kernels that are to run again, and as many others, without those pinned, as the cap requires.

    If it cannot be met, those with the lowest peak found. Each choice takes linear time, but for what the best offers
    need besides.
    """
    again, refused, moved = wanted.again, set[frozenset[int]](), False
    now = replay(step, again)
    offers = ranked(step, again, wanted.pinned, now)
    while now.peak > cap:
        best = next((each for each in offers if each.kernels not in refused), None)
        if best is None:
            if not moved:
                return Choice(again, now.peak)
            offers, refused, moved = ranked(step, again, wanted.pinned, now), set(), False
            continue
        tried = {**again, **dict.fromkeys(sorted(best.kernels), now.place)}
        after = replay(step, tried)
        limit = max(cap, now.peak - now.peak // _SLICE)
        if after.peak <= now.peak and after.over(limit) < now.over(limit):
            again, now, moved = tried, after, True
            offers = ranked(step, again, wanted.pinned, now)
        else:
            refused.add(best.kernels)
    return _pruned(step, wanted.again, Choice(again, now.peak), cap)


def ranked(step: Step, again: Again, pinned: frozenset[int], now: Replay) -> Iterator[Offer]:
    """The offers, the best first. What else a kernel needs makes its offer worse, and is looked for only while it is
    the best: the search is best first, as that of Hart, Nilsson and Raphael (1968).
    """
    found: list[_Growing] = []
    for index in step.kernels():
        if index not in again and index not in pinned:
            freed = sum(step.graph.sizes[each] for each in step.graph.tasks[index].writes if now.is_live(each))
            if freed:
                found.append(_Growing.of(step, index, freed))
    heap = [(each.rank, -1, each.first, each) for each in found]
    heapify(heap)
    while heap:
        _, least, _, best = heappop(heap)
        if least >= 0:
            yield best.offer
        elif best.grow(step, again, pinned, now, heap[0][0] if heap else inf):
            heappush(heap, (best.rank, min(best.kernels) if best.is_whole else -1, best.first, best))


@dataclass
class _Growing:
    """An offer of the kernel `first`, with some of those whose results it needs and nothing holds at the peak.

    held: storages that must be held there instead. pending: what has yet to be looked at.
    """

    first: int
    kernels: set[int]
    bytes: int
    ns: float
    pending: list[int]
    held: set[int] = field(default_factory=set[int])

    @staticmethod
    def of(step: Step, index: int, freed: int) -> _Growing:
        task = step.graph.tasks[index]
        return _Growing(index, {index}, freed, task.ns, list(task.reads))

    @property
    def is_whole(self) -> bool:
        """Whether all has been looked at."""
        return not self.pending

    @property
    def rank(self) -> float:
        """The best is the smallest; never larger than that of the whole offer."""
        return -self.bytes / max(self.ns, 1.0)

    @property
    def offer(self) -> Offer:
        return Offer(frozenset(self.kernels), self.bytes, self.ns)

    def grow(self, step: Step, again: Again, pinned: frozenset[int], now: Replay, limit: float) -> bool:
        """Looks until all is found, or another is better, whose rank is `limit`. Whether it frees anything."""
        tasks, sizes = step.graph.tasks, step.graph.sizes
        while self.pending and self.rank <= limit:
            storage = self.pending.pop()
            maker = step.makers.get(storage)
            if now.is_live(storage) or maker in again or maker in self.kernels:
                continue
            if maker is not None and maker not in pinned:
                self.kernels.add(maker)
                self.ns += tasks[maker].ns
                self.pending += tasks[maker].reads
            elif storage not in self.held:
                self.held.add(storage)
                self.bytes -= sizes[storage]
                if self.bytes <= 0:
                    return False
        if self.is_whole:
            # The sum does not depend on the order in which kernels were found.
            self.ns = sum(tasks[each].ns for each in sorted(self.kernels))
        return True


def _pruned(step: Step, wanted: Again, choice: Choice, cap: int) -> Choice:
    again, peak = dict(choice.again), choice.peak
    for index in sorted(again.keys() - wanted.keys(), key=lambda each: (-step.graph.tasks[each].ns, -each)):
        place = again.pop(index)
        without = replay(step, again).peak
        if without <= cap:
            peak = without
        else:
            again[index] = place
    # What was necessary may no longer be, once others are kept.
    return Choice(again, peak) if len(again) == len(choice.again) else _pruned(step, wanted, Choice(again, peak), cap)
