"""Observers of a compilation: the compiler reports stages, an observer shows or records them.

The base layer: this file imports nothing of dmc, so every part of the compiler may report to an observer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass


class Observer:
    """Watches a compilation and shows nothing but notes; the base of every other observer.

    The compiler calls `plan` once, with the names of the stages it is about to run, and then runs each of them inside
    `with observer.stage(name):`. Stages do not nest. An observer never swallows an exception that a stage raises.
    """

    def plan(self, stages: Sequence[str]) -> None:
        """Announces the stages to come, in order."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A context manager around one stage; calls `started` before it and `finished` after it, failed or not."""
        return _timed(self, name)

    def started(self, name: str) -> None:
        """A stage begins."""

    def finished(self, name: str, seconds: float, failed: bool) -> None:
        """A stage has ended after `seconds` of wall-clock time; `failed` if it raised."""

    def note(self, text: str) -> None:
        """One line that the user should see. Logged by "dmc", which Python writes to stderr unless told otherwise."""
        logging.getLogger("dmc").warning(text)


@dataclass(frozen=True)
class StageTime:
    """One finished stage: wall-clock seconds, and whether it raised."""

    name: str
    seconds: float
    failed: bool


class RecordingObserver(Observer):
    """Records what it sees: `planned` (names, in order), `times` (finished stages, in order) and `notes`."""

    def __init__(self) -> None:
        self.planned: tuple[str, ...] = ()
        self.times: list[StageTime] = []
        self.notes: list[str] = []

    def plan(self, stages: Sequence[str]) -> None:
        """Records the names."""
        self.planned = tuple(stages)

    def finished(self, name: str, seconds: float, failed: bool) -> None:
        """Records the time."""
        self.times.append(StageTime(name, seconds, failed))

    def note(self, text: str) -> None:
        """Records the line."""
        self.notes.append(text)


@contextmanager
def _timed(observer: Observer, name: str) -> Generator[None]:
    start = time.perf_counter()
    failed = True
    observer.started(name)
    try:
        yield
        failed = False
    finally:
        observer.finished(name, time.perf_counter() - start, failed)
