"""The flight recorder of a rank: where it is, and how long its last steps took."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from dmc.program import Collective, Launch, Move, Program

_KEPT = 4


class Position(msgspec.Struct, frozen=True):
    """Where a rank is.

    step: the last that it has begun, from 1; 0 before the first. is_waiting: whether its host waits for the step.
    has_left: whether it has ended normally. text: the same, for messages.
    """

    step: int
    is_waiting: bool
    has_left: bool
    text: str


@dataclass
class Recorder:
    """Written by the main thread of a rank, read by any thread. waited_s: how long its host has waited, in total.

    unfinished: what a device that runs steps by itself says: the first step, and the place of its first movement
    between ranks, that have not ended.
    """

    program: Program
    step: int = 0
    has_left: bool = False
    waited_s: float = 0.0
    unfinished: Callable[[], tuple[int, int] | None] = lambda: None
    _command: int | None = None
    _began: float = field(default_factory=time.monotonic)
    _waits_since: float | None = None
    _steps: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def begin(self, step: int) -> None:
        """Records that a step begins."""
        now = time.monotonic()
        if self.step:
            self._steps.append((self.step, now - self._began))
        self.step, self._began, self._command = step, now, None

    def reach(self, command: int | None) -> None:
        """Records that a command begins, by its index in the program; None after the last."""
        self._command = command

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Records that the host waits for its step, as long as the context is open."""
        self._waits_since = time.monotonic()
        try:
            yield
        finally:
            self.waited_s += self.waits_for_s()
            self._waits_since = None

    def waits_for_s(self) -> float:
        """How long the host has been waiting; 0 if it is not."""
        since = self._waits_since
        return 0.0 if since is None else time.monotonic() - since

    def position(self) -> Position:
        """Where the rank is."""
        return Position(self.step, self._waits_since is not None, self.has_left, self._told())

    def last_steps(self) -> str:
        """How long the last steps took, for messages."""
        ended = [f"step {step} {_seconds(took)}" for step, took in tuple(self._steps)]
        return ", ".join([*ended, f"step {self.step} {_seconds(time.monotonic() - self._began)} so far"])

    def _told(self) -> str:
        if not self.step:
            return "before its first step"
        if self.has_left:
            return f"at its end, after step {self.step}"
        if self._command is not None:
            return self._at(self.step, self._command)
        if (found := self.unfinished()) is not None:
            return self._at(*found)
        if self._waits_since is not None:
            return f"in step {self.step}"
        return f"in user code after step {self.step}{_main_thread()}"

    def _at(self, step: int, place: int) -> str:
        return f"in step {step}, command {place} of {len(self.program.commands)}: {self._what(place)}"

    def _what(self, place: int) -> str:
        match command := self.program.commands[place]:
            case Collective():
                ranks = ", ".join(map(str, command.ranks))
                return f"{command.kind} of {command.label or 'unnamed'} over {command.channel} (ranks {ranks})"
            case Launch():
                return f"kernel {command.kernel} of {command.label or 'unnamed'}"
            case Move():
                return f"copy of {command.label or 'unnamed'}"
            case _:
                return "an event"


def _main_thread() -> str:
    """The file and line that the main thread is executing."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    frame = frames.get(threading.main_thread().ident or 0)
    return "" if frame is None else f" ({frame.f_code.co_filename}:{frame.f_lineno})"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
