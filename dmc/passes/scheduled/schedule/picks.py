"""How a list scheduler picks the next kernel within the available memory."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence

from dmc.analysis.tasks.graph import Followers, TaskGraph
from dmc.passes.scheduled.schedule.bounds import bounds_of
from dmc.passes.scheduled.schedule.lives import lives_of

# Pops an entry from a lane's heap of (priority, task) and returns the task; None where the lane should wait.
Pick = Callable[[list[tuple[float, int]]], int | None]

# At most this many tasks are tried for one that fits: more would make scheduling quadratic.
LOOKED_AT = 16


def first(queue: list[tuple[float, int]]) -> int:
    """Picks the task of highest priority."""
    return heapq.heappop(queue)[1]


def picks_within(graph: TaskGraph, base: Sequence[int], followers: Followers, cap: int) -> Pick:
    """Picks the task of highest priority among the first `LOOKED_AT` that fit, if the kernels of `base` stay under the
    cap.

    A kernel that runs before its turn in `base` makes its results, and what is gathered for it, live from now on: that
    must fit in addition to what `base` uses from now until its turn. The kernel whose turn it is always fits.
    """
    ahead = _Ahead(graph, base, followers, cap)

    def pick(queue: list[tuple[float, int]]) -> int | None:
        if graph.tasks[queue[0][1]].is_movement:
            return first(queue)
        chosen, too_large = None, list[tuple[float, int]]()
        while chosen is None and queue and len(too_large) < LOOKED_AT:
            entry = heapq.heappop(queue)
            if ahead.fits(entry[1]):
                chosen = entry[1]
            else:
                too_large.append(entry)
        for entry in too_large:
            heapq.heappush(queue, entry)
        if chosen is None:
            return ahead.take_turn(queue)
        ahead.run(chosen)
        return chosen

    return pick


class _Ahead:
    """turn: the first place of `base` whose kernel has not run. A kernel may run before its turn.

    left: for each storage that no movement touches and that ends with a kernel, the kernels that have yet to touch it.
    """

    def __init__(self, graph: TaskGraph, base: Sequence[int], followers: Followers, cap: int) -> None:
        self.graph, self.base, self.cap = graph, base, cap
        self.position = {index: place for place, index in enumerate(base)}
        self.lives, self.room = lives_of(graph, base, bounds_of(graph, base, followers))
        self.turn = 0
        self.has_run = [False] * len(base)
        self.left = self._touches()

    def _touches(self) -> Counter[int]:
        left: Counter[int] = Counter()
        moved = set(self.graph.kept)
        for task in self.graph.tasks:
            touched = {*task.reads, *task.writes}
            moved.update(touched if task.is_movement else ())
            left.update(touched)
        return Counter({storage: count for storage, count in left.items() if storage not in moved})

    def fits(self, index: int) -> bool:
        """Whether there is room for it to run now."""
        if self.position[index] == self.turn:
            return True
        scratch = self.graph.tasks[index].scratch
        now, size = 2 * self.turn, 0
        for storage in self._new(index):
            size += self.graph.sizes[storage]
            if self.room.highest(now, self.lives[storage][0]) + size > self.cap:
                return False
        return self.room.highest(now, now + 2) + size + scratch <= self.cap

    def run(self, index: int) -> None:
        """Runs the kernel now."""
        now = 2 * self.turn
        for storage in self._new(index):
            begin, end = self.lives[storage]
            self.room.add(now, begin, self.graph.sizes[storage])
            self.lives[storage] = (now, end)
        self.has_run[self.position[index]] = True
        while self.turn < len(self.base) and self.has_run[self.turn]:
            self.turn += 1
        task = self.graph.tasks[index]
        for storage in dict.fromkeys((*task.reads, *task.writes)):
            if storage in self.left:
                self._touch(storage)

    def _touch(self, storage: int) -> None:
        """Frees a storage behind its last kernel, which may be earlier than in `base`."""
        self.left[storage] -= 1
        now, (_, end) = 2 * self.turn, self.lives[storage]
        if not self.left[storage] and now <= end:
            self.room.add(now, end + 1, -self.graph.sizes[storage])

    def take_turn(self, queue: list[tuple[float, int]]) -> int | None:
        """The kernel whose turn it is, if it is ready but too far back to be tried."""
        index = self.base[self.turn]
        place = next((place for place, entry in enumerate(queue) if entry[1] == index), None)
        if place is None:
            return None
        queue.pop(place)
        heapq.heapify(queue)
        self.run(index)
        return index

    def _new(self, index: int) -> list[int]:
        """The storages that would not be live yet."""
        task = self.graph.tasks[index]
        touched = dict.fromkeys((*task.writes, *task.reads))
        return [each for each in touched if self.graph.sizes[each] and self.lives[each][0] > 2 * self.turn]


def frees_first(graph: TaskGraph, followers: Followers) -> list[int]:
    """The kernels in the given order, except that those that do not increase live memory run as early as possible.

    So optimizer updates run as their gradients arrive, which frees these. Near-linear.
    """
    missing = [len(task.needs) + len(task.after) for task in graph.tasks]
    frees = _Frees(graph)
    ready = [(frees.takes(index), index) for index in range(len(graph.tasks)) if not missing[index]]
    heapq.heapify(ready)
    has_run: set[int] = set()
    order: list[int] = []
    while ready:
        _, index = heapq.heappop(ready)
        if index in has_run:
            continue
        has_run.add(index)
        if not graph.tasks[index].is_movement:
            order.append(index)
        for follower in followers.of(index):
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, (frees.takes(follower), follower))
        for reader in frees.run(index):
            if not missing[reader] and reader not in has_run:
                heapq.heappush(ready, (frees.takes(reader), reader))
    return order


class _Frees:
    """Which tasks increase live memory, as tasks run. left: the remaining readers of each storage."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.left: list[dict[int, None]] = [{} for _ in graph.sizes]
        for index, task in enumerate(graph.tasks):
            for storage in task.reads:
                self.left[storage][index] = None
        for storage in graph.kept:
            self.left[storage][-1] = None

    def takes(self, index: int) -> bool:
        """Whether it increases live memory."""
        task = self.graph.tasks[index]
        freed = sum(self.graph.sizes[each] for each in task.reads if len(self.left[each]) == 1)
        return sum(self.graph.sizes[each] for each in task.writes if each not in task.reads) > freed

    def run(self, index: int) -> list[int]:
        """Marks a task as run; returns the tasks that are now the last reader of something."""
        found: list[int] = []
        for storage in self.graph.tasks[index].reads:
            self.left[storage].pop(index, None)
            if len(self.left[storage]) == 1:
                found += [reader for reader in self.left[storage] if reader >= 0]
        return found
