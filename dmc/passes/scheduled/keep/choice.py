"""Which kernels of the forward pass run again, so that a step fits under a cap.

Greedy: at the peak, the kernel whose results free the most bytes there per nanosecond of running it again, together
with the kernels whose results it needs and nothing else keeps; among equals the first, whose results are held longest,
so that of equal layers as many as necessary are computed again. A choice that does not lower the peak is passed over.
What turns out to be unnecessary in the end is kept after all, the most expensive first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dmc.analysis.tasks.graph import TaskGraph
from dmc.passes.scheduled.keep.forward import Forward
from dmc.passes.scheduled.keep.replay import Replay, replay
from dmc.passes.scheduled.keep.words import Wanted


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


@dataclass(frozen=True)
class Choice:
    """The kernels that run again, and the peak of live bytes with them."""

    again: frozenset[int]
    peak: int


def choose(graph: TaskGraph, forward: Forward, wanted: Wanted, cap: int) -> Choice:
    """The kernels that are to run again, and as many others, without those pinned, as the cap requires.

    If it cannot be met, those of the lowest peak found. Each choice takes linear time.
    """
    again, refused = wanted.again, set[frozenset[int]]()
    now = replay(graph, forward, again)
    moved = False
    while now.peak > cap:
        offers = [each for each in _offers(graph, forward, again, wanted.pinned, now) if each.kernels not in refused]
        if not offers:
            if not moved:
                break
            refused, moved = set(), False
            continue
        best = min(offers, key=lambda each: each.rank)
        after = replay(graph, forward, again | best.kernels)
        if after.peak < now.peak:
            again, now, moved = again | best.kernels, after, True
        else:
            refused.add(best.kernels)
    return _pruned(graph, forward, wanted.again, Choice(again, now.peak), cap)


def _offers(
    graph: TaskGraph, forward: Forward, again: frozenset[int], pinned: frozenset[int], now: Replay
) -> Iterator[_Offer]:
    for index in dict.fromkeys(forward.makers.values()):
        freed = [each for each in graph.tasks[index].writes if now.is_live(each)]
        if not freed or index in again or index in pinned:
            continue
        kernels, held = _with_makers(graph, forward, again, pinned, index, now)
        bytes_ = sum(graph.sizes[each] for each in freed) - sum(graph.sizes[each] for each in held)
        if bytes_ > 0:
            yield _Offer(kernels, bytes_, sum(graph.tasks[each].ns for each in kernels))


def _with_makers(
    graph: TaskGraph, forward: Forward, again: frozenset[int], pinned: frozenset[int], index: int, now: Replay
) -> tuple[frozenset[int], set[int]]:
    """A kernel, with those whose results it needs and nothing holds at the peak; and what must then be held."""
    found, held, pending = {index}, set[int](), list(graph.tasks[index].reads)
    while pending:
        storage = pending.pop()
        maker = forward.makers.get(storage)
        if now.is_live(storage) or maker in again or maker in found:
            continue
        if maker is None or maker in pinned:
            held.add(storage)
            continue
        found.add(maker)
        pending += graph.tasks[maker].reads
    return frozenset(found), held


def _pruned(graph: TaskGraph, forward: Forward, wanted: frozenset[int], choice: Choice, cap: int) -> Choice:
    if choice.peak > cap:
        return choice
    again, peak = choice.again, choice.peak
    for index in sorted(again - wanted, key=lambda each: (-graph.tasks[each].ns, -each)):
        without = replay(graph, forward, again - {index})
        if without.peak <= cap:
            again, peak = again - {index}, without.peak
    return Choice(again, peak)
