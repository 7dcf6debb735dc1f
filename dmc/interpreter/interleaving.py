"""Tasks that run at the same time: in each step one of those that can go on does, at random."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import TypeAlias

# What a task waits for; it compares by value.
Condition: TypeAlias = Hashable
# Between two steps a task yields what it waits for, or None where it can go on.
Task: TypeAlias = Generator[Condition | None, None, None]


@dataclass
class Interleaving:
    """Runs tasks in one of their interleavings; the same seed gives the same one.

    Each task has a random priority, and the highest of those that can go on does. Whoever went draws a new priority
    with a probability that is drawn once: seeds range from a new choice at every step to tasks that run far ahead of
    all others, which shows faults that need a long delay. (After Burckhardt et al., "A Randomized Scheduler with
    Probabilistic Guarantees of Finding Bugs", ASPLOS 2010.)
    """

    random: Random
    # Under each condition, who waits for it.
    waiting: dict[Condition, list[_Ready]] = field(default_factory=dict)
    _met: set[Condition] = field(default_factory=set)
    _ready: list[_Ready] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._restlessness = 2.0 ** -self.random.uniform(0, 10)

    def spawn(self, task: Task) -> None:
        """Adds a task."""
        self._count += 1
        # Counted, so that no two tasks are compared.
        heappush(self._ready, (self.random.random(), self._count, task))

    def meet(self, condition: Condition) -> None:
        """From here on the condition holds."""
        self._met.add(condition)
        for ready in self.waiting.pop(condition, ()):
            heappush(self._ready, ready)

    def run(self) -> None:
        """Goes on until no task can. `waiting` is empty then, unless some wait for one another."""
        while self._ready:
            priority, number, task = heappop(self._ready)
            # A task says when it is done by ending.
            for condition in task:
                if self.random.random() < self._restlessness:
                    priority = self.random.random()
                if condition is None or condition in self._met:
                    heappush(self._ready, (priority, number, task))
                else:
                    self.waiting.setdefault(condition, []).append((priority, number, task))
                break


_Ready: TypeAlias = tuple[float, int, Task]
