"""Shows a compilation: a progress bar by stage on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from dmc.observer import Observer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


# The first line comes so long after the beginning, and the next ones so long after one another.
FIRST_S, EVERY_S = 1.5, 5.0


class LogObserver(Observer):
    """A line now and then while a compilation takes long: what runs, how many stages are done, and for how long."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begin = time.perf_counter()
        self._stage, self._done, self._planned = "begins", 0, 0

    @contextmanager
    def running(self) -> Generator[Observer]:
        """Prints inside the block, from a thread of its own."""
        ended = threading.Event()
        thread = threading.Thread(target=self._print, args=(ended,), name="dmc-progress", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def plan(self, stages: Sequence[str]) -> None:
        """Counts them."""
        self._planned += len(stages)

    def started(self, name: str) -> None:
        """Takes the name."""
        self._stage = name

    def finished(self, name: str, seconds: float, failed: bool) -> None:
        """Counts the stage."""
        self._done += 1

    def _print(self, ended: threading.Event) -> None:
        wait = FIRST_S
        while not ended.wait(wait):
            seconds = time.perf_counter() - self._begin
            # A search does not know beforehand how many plans it will try.
            done = f"{self._done} of {self._planned}" if self._planned else str(self._done)
            said = f"dmc: compiling for {seconds:.0f} s: {self._stage}, {done} stages done"
            print(said, file=self._stream, flush=True)
            wait = EVERY_S


class PlainObserver(LogObserver):
    """One line more per finished stage: its name and its wall-clock time."""

    def finished(self, name: str, seconds: float, failed: bool) -> None:
        """Prints the line."""
        super().finished(name, seconds, failed)
        print(f"{name:<24} {seconds:7.2f} s{'  failed' if failed else ''}", file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Prints the line."""
        print(f"note: {text}", file=self._stream, flush=True)


class BarObserver(Observer):
    """A bar over the planned stages, with the running one named and timed; finished stages stay above it as lines."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("compile", total=0)
        self._planned: list[str] = []

    def plan(self, stages: Sequence[str]) -> None:
        """Extends the bar by these stages."""
        self._planned += stages
        self._lengthen(len(stages))

    def started(self, name: str) -> None:
        """Names the running stage; an unplanned one extends the bar."""
        if name in self._planned:
            self._planned.remove(name)
        else:
            self._lengthen(1)
        self._progress.update(self._task, description=name)

    def finished(self, name: str, seconds: float, failed: bool) -> None:
        """Advances the bar, unless the stage failed."""
        mark = "[red]✗[/]" if failed else "[green]✓[/]"
        self._progress.console.print(f"{mark} {name:<24} {seconds:7.2f} s")
        if not failed:
            self._progress.advance(self._task)

    def note(self, text: str) -> None:
        """Prints the line above the bar."""
        self._progress.console.print(f"note: {text}", markup=False)

    def _lengthen(self, count: int) -> None:
        self._progress.update(self._task, total=(self._progress.tasks[self._task].total or 0) + count)


@contextmanager
def shown(progress: bool | None = None, stream: TextIO | None = None) -> Generator[Observer]:
    """An observer that suits `stream` (stderr by default), active inside the block.

    progress: whether to show stages; by default all of them on a terminal, and elsewhere a line every few seconds.
    """
    target = sys.stderr if stream is None else stream
    if progress is False:
        yield Observer()
    elif target.isatty():
        with _bar(target) as bar:
            yield BarObserver(bar)
    else:
        with (PlainObserver if progress else LogObserver)(target).running() as observer:
            yield observer


def _bar(stream: TextIO) -> Progress:
    # Imported here: only a terminal needs rich.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(file=stream, highlight=False),
        transient=True,
    )
