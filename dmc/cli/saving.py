"""What `dmc run` keeps of a training: at its end, when it is interrupted, and every so many steps."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from dmc.runtime import Step


@dataclass(frozen=True)
class Saving:
    """path: the file to write, None for none. every: steps between two saves, None to save only when training ends."""

    step: Step
    path: str | None
    every: int | None

    def announce(self) -> None:
        """Says before training what will be left of it."""
        if self.path is None:
            _note("the trained state will not be kept; to keep it, give -o FILE")
            return
        every = "" if self.every is None else f", every {self.every} steps"
        _note(f"{self.path} will hold the trained step: at the end, on Ctrl-C{every}")

    def after(self, count: int) -> None:
        """Called when `count` steps of this run have been queued."""
        if self.path is not None and self.every is not None and count % self.every == 0:
            self.step.save(self.path)

    def at_end(self) -> None:
        """Called when training has ended, or was interrupted. Writing is atomic: an old file stays whole until then."""
        if self.path is not None:
            self.step.save(self.path)
            _note(f"wrote {self.path} after step {self.step.steps_done}")


@contextmanager
def terminable() -> Generator[None]:
    """Lets a request to terminate, as a job scheduler sends it, end the body as Ctrl-C does."""

    def interrupt(signum: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)
