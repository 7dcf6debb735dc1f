"""Which kernels run again, so that a step fits under a cap.

Greedy: the kernel whose results, live at the peak, free the most bytes per nanosecond of running it again behind the
peak, together with the kernels whose results it needs and nothing else holds; among equals the first, whose results are
held longest, so that of equal layers as many as necessary run again. A choice that does not lower what is highest is
passed over. What turns out to be unnecessary in the end is kept after all, the most expensive first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

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
    """The offers, the best first. What else a kernel needs makes its offer worse, and is found only once it counts."""
    graph = step.graph
    heap: list[tuple[tuple[float, int], int, Offer | None]] = []
    for index in step.kernels():
        freed = [each for each in graph.tasks[index].writes if now.is_live(each)]
        if freed and index not in again and index not in pinned:
            bound = _rank(sum(graph.sizes[each] for each in freed), graph.tasks[index].ns)
            heap.append(((bound, -1), index, None))
    heapify(heap)
    while heap:
        _, index, known = heappop(heap)
        if known is not None:
            yield known
        elif (found := offer(step, again, pinned, now, index)) is not None:
            heappush(heap, ((_rank(found.bytes, found.ns), min(found.kernels)), index, found))


def _rank(bytes_: int, ns: float) -> float:
    """The best is the smallest."""
    return -bytes_ / max(ns, 1.0)


def offer(step: Step, again: Again, pinned: frozenset[int], now: Replay, index: int) -> Offer | None:
    """A kernel with those whose results it needs and nothing holds at the peak; None where that frees nothing, since
    more must then be held."""
    tasks, sizes = step.graph.tasks, step.graph.sizes
    found, held, pending = {index}, set[int](), list(tasks[index].reads)
    freed = sum(sizes[each] for each in tasks[index].writes if now.is_live(each))
    while pending:
        storage = pending.pop()
        maker = step.makers.get(storage)
        if now.is_live(storage) or maker in again or maker in found:
            continue
        if maker is not None and maker not in pinned:
            found.add(maker)
            pending += tasks[maker].reads
        elif storage not in held:
            held.add(storage)
            freed -= sizes[storage]
            if freed <= 0:
                return None
    return Offer(frozenset(found), freed, sum(tasks[each].ns for each in found))


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
