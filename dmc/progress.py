"""Shows a compilation: a progress bar by stage on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from dmc.observer import Observer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class PlainObserver(Observer):
    """One line per finished stage: its name and its wall-clock time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def finished(self, name: str, seconds: float, failed: bool) -> None:
        """Prints the line."""
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

    progress: whether to show stages; by default only on a terminal.
    """
    target = sys.stderr if stream is None else stream
    if progress is not False and target.isatty():
        with _bar(target) as bar:
            yield BarObserver(bar)
    else:
        yield PlainObserver(target) if progress else Observer()


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
