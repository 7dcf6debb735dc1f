"""Which kernels run again, so that a step fits under a cap.

Greedy: the kernel whose results, live at the peak, free the most bytes per nanosecond of running it again behind the
peak, together with the kernels whose results it needs and nothing else holds; among equals the first, whose results are
held longest, so that of equal layers as many as necessary run again. A choice that does not bring the step closer to
the cap is passed over. What turns out to be unnecessary in the end is kept after all, the most expensive first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dmc.passes.scheduled.keep.replay import Replay, replay
from dmc.passes.scheduled.keep.step import Again, Step
from dmc.passes.scheduled.keep.words import Wanted


@dataclass(frozen=True)
class Choice:
    """The kernels that run again, and the peak of live bytes with them."""

    again: Again
    peak: int


@dataclass(frozen=True)
class _Offer:
    """Kernels that may run again together: bytes that this frees at the peak, and its time."""

    kernels: frozenset[int]
    bytes: int
    ns: float

    @property
    def rank(self) -> tuple[float, int]:
        """The best is the smallest."""
        return -self.bytes / max(self.ns, 1.0), min(self.kernels)


def choose(step: Step, wanted: Wanted, cap: int) -> Choice:
    """The kernels that are to run again, and as many others, without those pinned, as the cap requires.

    If it cannot be met, those with the lowest peak found. Each choice takes linear time.
    """
    again, refused, moved = wanted.again, set[frozenset[int]](), False
    now = replay(step, again)
    while now.peak > cap:
        offers = [each for each in _offers(step, again, wanted.pinned, now) if each.kernels not in refused]
        if not offers:
            if not moved:
                return Choice(again, now.peak)
            refused, moved = set(), False
            continue
        best = min(offers, key=lambda each: each.rank)
        tried = {**again, **dict.fromkeys(best.kernels, now.place)}
        after = replay(step, tried)
        if after.peak <= now.peak and after.over(cap) < now.over(cap):
            again, now, moved = tried, after, True
        else:
            refused.add(best.kernels)
    return _pruned(step, wanted.again, Choice(again, now.peak), cap)


def _offers(step: Step, again: Again, pinned: frozenset[int], now: Replay) -> Iterator[_Offer]:
    graph = step.graph
    for index in step.kernels():
        freed = [each for each in graph.tasks[index].writes if now.is_live(each)]
        if not freed or index in again or index in pinned:
            continue
        kernels, held = _with_makers(step, again, pinned, index, now)
        bytes_ = sum(graph.sizes[each] for each in freed) - sum(graph.sizes[each] for each in held)
        if bytes_ > 0:
            yield _Offer(kernels, bytes_, sum(graph.tasks[each].ns for each in kernels))


def _with_makers(
    step: Step, again: Again, pinned: frozenset[int], index: int, now: Replay
) -> tuple[frozenset[int], set[int]]:
    """A kernel, with those whose results it needs and nothing holds at the peak; and what must then be held."""
    found, held, pending = {index}, set[int](), list(step.graph.tasks[index].reads)
    while pending:
        storage = pending.pop()
        maker = step.makers.get(storage)
        if now.is_live(storage) or maker in again or maker in found:
            continue
        if maker is None or maker in pinned:
            held.add(storage)
            continue
        found.add(maker)
        pending += step.graph.tasks[maker].reads
    return frozenset(found), held


def _pruned(step: Step, wanted: Again, choice: Choice, cap: int) -> Choice:
    again, peak = dict(choice.again), choice.peak
    for index in sorted(again.keys() - wanted.keys(), key=lambda each: (-step.graph.tasks[each].ns, -each)):
        place = again.pop(index)
        without = replay(step, again).peak
        if without <= cap:
            peak = without
        else:
            again[index] = place
    return Choice(again, peak)
