"""Where movements are started and waited for between kernels of fixed order.

Walks over the kernels by the clock of `analysis.tasks.timeline`. A movement that frees memory (a gradient's reduction)
is started as early as possible, and waited for when done. One that takes memory (a gather of parameters) is started,
most urgent first, as soon as its lane is about to be free and there is room until it is read; at the latest right
before. Finally, waits are sunk as far as the peak allows, so that a movement slower than predicted delays nothing.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from dmc.analysis.tasks.graph import Followers, TaskGraph
from dmc.passes.scheduled.schedule.bounds import Bounds, bounds_of
from dmc.passes.scheduled.schedule.lives import lives_of

# At most this many movements without room are tried per gap: more would make scheduling quadratic.
TRIES = 16


def place_movements(
    graph: TaskGraph, kernels: Sequence[int], followers: Followers, cap: int | None, *, overlap: bool
) -> list[int]:
    """An order in which `kernels` run as given, with at most `cap` bytes in use where that is possible.

    overlap: False starts and waits at the gap of least memory, without overlap. Near-linear.
    """
    walk = _Walk(graph, kernels, followers, cap, overlap)
    walk.run()
    if overlap:
        walk.sink_waits()
    return walk.order()


class _Walk:
    """The state of the walk. gap: the current one. now: the clock of the compute lane. free: when lanes become free."""

    def __init__(
        self,
        graph: TaskGraph,
        kernels: Sequence[int],
        followers: Followers,
        cap: int | None,
        overlap: bool,
    ) -> None:
        self.graph, self.kernels, self.followers, self.overlap = graph, kernels, followers, overlap
        self.bounds: Bounds = bounds_of(graph, kernels, followers)
        self.clock = [0.0, *accumulate(graph.tasks[index].ns for index in kernels)]
        self.lives, self.room = lives_of(graph, kernels, self.bounds)
        self.limit = max(cap or 0, self.room.highest(0, 2 * len(kernels) + 1)) if cap is not None else None
        self.missing = [len(task.needs) + len(task.after) for task in graph.tasks]
        self.ready: dict[str, list[tuple[int, int]]] = {}
        self.again: dict[int, list[int]] = {}
        self.due: dict[int, list[int]] = {}
        self.forced: dict[int, list[int]] = {}
        self.gaps: list[list[int]] = [[] for _ in range(len(kernels) + 1)]
        self.waited_in: dict[int, int] = {}
        self.end: dict[int, float] = {}
        self.free: dict[str, float] = {}
        self.gap, self.now = 0, 0.0

    def run(self) -> None:
        """Fills the gaps."""
        for index in self._movements():
            self.forced.setdefault(self.bounds.last[index], []).append(index)
        # Listed first: releasing one may release others.
        for index in [index for index in self._movements() if not self.missing[index]]:
            self._release(index)
        for gap, index in enumerate([*self.kernels, None]):
            self.gap = gap
            self._fill(0.0 if index is None else self.graph.tasks[index].ns)
            if index is not None:
                self.now += self.graph.tasks[index].ns
                self.gap = gap + 1
                self._done(index)

    def _movements(self) -> Iterator[int]:
        return (index for index, task in enumerate(self.graph.tasks) if task.is_movement)

    def _fill(self, ns: float) -> None:
        """Processes this gap, before a kernel of this duration."""
        for index in self.again.pop(self.gap, ()):
            self._queue(index)
        for index in self.forced.get(self.gap, ()):
            self._begin_now(index)
        self._prefetch(ns)
        self.due.setdefault(self.gap, []).extend(self.forced.get(self.gap, ()))
        self._wait_for_due()
        self._prefetch(ns)
        self._wait_for_due()

    def _wait_for_due(self) -> None:
        """Waits for movements due in this gap, earliest first; a wait may enable the next."""
        while waits := self.due.pop(self.gap, ()):
            for index in sorted(waits, key=lambda each: (self.end[each], each)):
                self._wait(index)

    def _prefetch(self, ns: float) -> None:
        """Starts ready movements, most urgent first, on lanes that become free before the next kernel ends."""
        for lane in list(self.ready) if self.overlap else ():
            queue, tries = self.ready[lane], TRIES
            while queue and tries and self.free.get(lane, 0.0) < self.now + ns:
                _, index = heapq.heappop(queue)
                if index not in self.end and not self._begins(index):
                    tries -= 1

    def _release(self, index: int) -> None:
        """Marks a movement as ready from here on."""
        if self.bounds.is_eager[index]:
            self._begin(index)
        else:
            self._queue(index)

    def _queue(self, index: int) -> None:
        lane = self.graph.tasks[index].lane
        heapq.heappush(self.ready.setdefault(lane, []), (self.bounds.last[index], index))

    def _begins(self, index: int) -> bool:
        """Starts it if there is room until it is read; otherwise retries after the place without room."""
        for storage in self.graph.tasks[index].writes:
            size = self.graph.sizes[storage]
            if self.limit is None or not size:
                continue
            blocked = self.room.last_above(2 * self.gap, self.lives[storage][0], self.limit - size)
            if blocked is not None:
                self.again.setdefault(blocked // 2 + 1, []).append(index)
                return False
        self._begin(index)
        return True

    def _begin_now(self, index: int) -> None:
        """Starts a movement that cannot be delayed further, after its dependences."""
        if index in self.end:
            return
        task = self.graph.tasks[index]
        for before in (*task.after, *task.needs):
            if self.graph.tasks[before].is_movement:
                self._begin_now(before)
        for before in task.needs:
            if self.graph.tasks[before].is_movement:
                self._wait(before)
        if index not in self.end:
            self._begin(index)

    def _begin(self, index: int) -> None:
        task = self.graph.tasks[index]
        begin = max(
            [self.now, self.free.get(task.lane, 0.0), *(self.end[each] for each in task.after if each in self.end)]
        )
        self.end[index] = self.free[task.lane] = begin + task.ns
        self.gaps[self.gap].append(index)
        gap = self._waiting_gap(index)
        for storage in task.reads:
            self._live(storage, self.lives[storage][0], 2 * gap)
        for storage in task.writes:
            self._live(storage, 2 * self.gap, 2 * gap)
        if gap < self.bounds.last[index] or gap == self.gap:
            self.due.setdefault(gap, []).append(index)
        for follower in self.followers.after[index]:
            self._count_down(follower)

    def _waiting_gap(self, index: int) -> int:
        """The gap where the movement will be done, or an earlier one if that would keep its operands live too long."""
        last = self.bounds.last[index]
        if not self.overlap:
            return max(self.gap, min(self.bounds.quiet[index], last))
        is_chained = any(self.graph.tasks[each].is_movement for each in self.followers.needing[index])
        if not self.bounds.is_eager[index] and not is_chained:
            return last
        done = bisect_left(self.clock, self.clock[self.gap] + self.end[index] - self.now, self.gap)
        gap = min(done, last)
        for storage in self.graph.tasks[index].reads:
            gap = min(gap, self._held_until(storage, gap))
        return max(gap, self.gap)

    def _held_until(self, storage: int, gap: int) -> int:
        """The last gap up to `gap` until which a storage can be kept live."""
        size = self.graph.sizes[storage]
        if self.limit is None or not size:
            return gap
        above = self.room.first_above(self.lives[storage][1] + 1, 2 * gap + 1, self.limit - size)
        return gap if above is None else above // 2

    def _live(self, storage: int, first: int, last: int) -> None:
        """Makes a storage live from place `first` to place `last`."""
        size = self.graph.sizes[storage]
        if not size:
            return
        begin, end = self.lives[storage]
        self.room.add(first, begin, size)
        self.room.add(end + 1, last + 1, size)
        self.lives[storage] = (min(first, begin), max(last, end))

    def _wait(self, index: int) -> None:
        if index in self.waited_in:
            return
        self.waited_in[index] = self.gap
        self.gaps[self.gap].append(~index)
        self.now = max(self.now, self.end[index])
        self._done(index)

    def _done(self, index: int) -> None:
        """Marks a kernel as run, or a movement as waited for."""
        is_movement = self.graph.tasks[index].is_movement
        for follower in self.followers.needing[index] if is_movement else self.followers.of(index):
            self._count_down(follower)

    def _count_down(self, index: int) -> None:
        self.missing[index] -= 1
        if not self.missing[index] and self.graph.tasks[index].is_movement and index not in self.end:
            self._release(index)

    def sink_waits(self) -> None:
        """Sinks waits as far as their next reader and peak memory allow."""
        peak = self.room.highest(0, 2 * len(self.kernels) + 1)
        for index, gap in sorted(self.waited_in.items()):
            last = self.bounds.last[index]
            if gap == last or any(self.graph.tasks[each].is_movement for each in self.followers.needing[index]):
                continue
            held = [(each, self.lives[each]) for each in self.graph.tasks[index].reads if self.graph.sizes[each]]
            if any(self.room.highest(end + 1, 2 * last + 1) + self.graph.sizes[each] > peak for each, (_, end) in held):
                continue
            for each, (first, end) in held:
                self._live(each, first, max(end, 2 * last))
            self.waited_in[index] = last
            self.gaps[last].append(~index)

    def order(self) -> list[int]:
        """The events, gap by gap with the kernels between them; for a sunk wait only the later place counts."""
        found: list[int] = []
        for gap, events in enumerate(self.gaps):
            found += [event for event in events if event >= 0 or self.waited_in[~event] == gap]
            found += self.kernels[gap : gap + 1]
        return found
