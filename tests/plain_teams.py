"""Teams of threads for Gluon in Triton's interpreter: they run in turn, each until it waits for another, so that each
is as far ahead as it can be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any


class Thread:
    """What the one thread that stands for all of a team has begun, and has not waited for."""

    def __init__(self) -> None:
        self.products: list[tuple[Any, ...]] = []
        # Read since the last barrier, and when.
        self.read: dict[int, int] = {}
        self.time = 0

    def note(self, rooms: Iterable[Any]) -> None:
        """Rooms that were read."""
        self.time += 1
        self.read.update({id(room.owner()): self.time for room in rooms})


class Teams:
    """The threads of a program, of which one runs at a time."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.begin()

    def begin(self) -> None:
        """A program begins, with one."""
        self.all = [Thread()]
        self.running, self.stuck = 0, 0
        self.errors: list[BaseException] = []
        self.done: set[int] = set()

    @property
    def now(self) -> Thread:
        """The one that runs."""
        return self.all[self.running]

    def run(self, parts: Sequence[tuple[Any, tuple[Any, ...]]], warps: Any, registers: Any) -> None:
        """Runs the functions of teams."""
        self.all = [self.all[0], *(Thread() for _ in parts[1:])]
        threads = [threading.Thread(target=self._team, args=(n, *part)) for n, part in enumerate(parts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _team(self, number: int, function: Any, arguments: tuple[Any, ...]) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.running == number)
            try:
                if not self.errors:
                    function(*arguments)
            except BaseException as error:
                self.errors.append(error)
            self.done.add(number)
            self._next()

    def _next(self) -> None:
        others = [(self.running + n) % len(self.all) for n in range(1, len(self.all) + 1)]
        self.running = next((number for number in others if number not in self.done), 0)
        self.stuck = 0 if len(self.done) == len(self.all) else self.stuck
        self.changed.notify_all()

    def wait(self, is_true: Callable[[], bool]) -> None:
        """Lets others run until something is true."""
        while not is_true():
            self.stuck += 1
            alive = len(self.all) - len(self.done)
            assert self.stuck <= alive and len(self.all) > 1 and not self.errors, "nobody does what is waited for"
            number = self.running
            self._next()
            self.changed.wait_for(lambda number=number: self.running == number)
        self.stuck = 0


TEAMS = Teams()
