"""Concurrent tasks: in each step a random runnable one proceeds."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import TypeAlias

# A condition that a task waits for, compared by value.
Condition: TypeAlias = Hashable
# Between two steps a task yields the condition it waits for, or None if it can proceed.
Task: TypeAlias = Generator[Condition | None, None, None]


@dataclass
class Interleaving:
    """Runs tasks in one of their interleavings; the same seed gives the same one.

    Each task has a random priority, and the runnable one of highest priority proceeds. It then draws a new priority
    with a probability that is drawn once: seeds range from a new choice at every step to tasks that run far ahead of
    all others, which exposes faults that need a long delay. (After Burckhardt et al., "A Randomized Scheduler with
    Probabilistic Guarantees of Finding Bugs", ASPLOS 2010.)
    """

    random: Random
    # By condition, the tasks that wait for it.
    waiting: dict[Condition, list[_Ready]] = field(default_factory=dict)
    _met: set[Condition] = field(default_factory=set)
    _ready: list[_Ready] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._restlessness = 2.0 ** -self.random.uniform(0, 10)

    def spawn(self, task: Task) -> None:
        """Adds a task."""
        self._count += 1
        # Counted, so that tasks are never compared.
        heappush(self._ready, (self.random.random(), self._count, task))

    def meet(self, condition: Condition) -> None:
        """Makes the condition hold from here on."""
        self._met.add(condition)
        for ready in self.waiting.pop(condition, ()):
            heappush(self._ready, ready)

    def run(self) -> None:
        """Runs until no task can proceed. `waiting` is then empty, unless tasks wait for one another."""
        while self._ready:
            priority, number, task = heappop(self._ready)
            # A task is done when it ends.
            for condition in task:
                if self.random.random() < self._restlessness:
                    priority = self.random.random()
                if condition is None or condition in self._met:
                    heappush(self._ready, (priority, number, task))
                else:
                    self.waiting.setdefault(condition, []).append((priority, number, task))
                break


_Ready: TypeAlias = tuple[float, int, Task]
