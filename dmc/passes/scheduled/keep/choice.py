"""Which kernels run again, so that a step fits under a cap.

Greedy: the kernel whose results, live at the peak, free the most bytes per nanosecond of running it again behind the
peak, together with the kernels whose results it needs and nothing else holds; among equals the first, whose results are
held longest, so that of equal layers as many as necessary run again. A choice that does not lower what is highest is
passed over. What turns out to be unnecessary in the end is kept after all, the most expensive first.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

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
class _Offer:
    """Kernels that may run again together: bytes that this frees at the peak, and its time. first: whose results."""

    first: int
    kernels: frozenset[int]
    bytes: int
    ns: float

    @property
    def rank(self) -> tuple[float, int]:
        """The best is the smallest."""
        return -self.bytes / max(self.ns, 1.0), min(self.kernels)


def choose(step: Step, wanted: Wanted, cap: int) -> Choice:
    """The kernels that are to run again, and as many others, without those pinned, as the cap requires.

    If it cannot be met, those with the lowest peak found. Each choice takes linear time, but for what the best offers
    need besides.
    """
    again, refused, moved = wanted.again, set[frozenset[int]](), False
    now = replay(step, again)
    while now.peak > cap:
        best = _best(step, again, wanted.pinned, now, refused)
        if best is None:
            if not moved:
                return Choice(again, now.peak)
            refused, moved = set(), False
            continue
        tried = {**again, **dict.fromkeys(sorted(best.kernels), now.place)}
        after = replay(step, tried)
        limit = max(cap, now.peak - now.peak // _SLICE)
        if after.peak <= now.peak and after.over(limit) < now.over(limit):
            again, now, moved = tried, after, True
        else:
            refused.add(best.kernels)
    return _pruned(step, wanted.again, Choice(again, now.peak), cap)


def _best(
    step: Step, again: Again, pinned: frozenset[int], now: Replay, refused: Container[frozenset[int]]
) -> _Offer | None:
    """The best offer that was not refused; None where there is none."""
    graph, best = step.graph, None
    bounds: list[tuple[float, int, int]] = []
    for index in step.kernels():
        freed = sum(graph.sizes[each] for each in graph.tasks[index].writes if now.is_live(each))
        if freed and index not in again and index not in pinned:
            # What it needs besides makes no offer better.
            bounds.append((-freed / max(graph.tasks[index].ns, 1.0), index, freed))
    for bound, index, freed in sorted(bounds):
        if best is not None and bound > best.rank[0]:
            break
        least = None if best is None else -best.rank[0]
        offer = _offer(step, again, pinned, now, index, freed, least)
        if offer is None or offer.kernels in refused:
            continue
        if best is None or (offer.rank, index) < (best.rank, best.first):
            best = offer
    return best


def _offer(
    step: Step, again: Again, pinned: frozenset[int], now: Replay, index: int, freed: int, least: float | None
) -> _Offer | None:
    """A kernel with those whose results it needs and nothing holds at the peak.

    freed: the bytes of its results that are live there, less what must then be held. None where nothing is left of
    that, or fewer bytes per nanosecond than `least`.
    """
    tasks, sizes = step.graph.tasks, step.graph.sizes
    found, held, pending = {index}, set[int](), list(tasks[index].reads)
    bytes_, ns = freed, tasks[index].ns
    while pending:
        storage = pending.pop()
        maker = step.makers.get(storage)
        if now.is_live(storage) or maker in again or maker in found:
            continue
        if maker is not None and maker not in pinned:
            found.add(maker)
            ns += tasks[maker].ns
            pending += tasks[maker].reads
        elif storage not in held:
            held.add(storage)
            bytes_ -= sizes[storage]
        if bytes_ <= 0 or (least is not None and bytes_ < least * max(ns, 1.0)):
            return None
    return _Offer(index, frozenset(found), bytes_, ns)


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
