"""What `dmc run` saves: at the end of training, on interruption, and every N steps."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from dmc.errors import InputError
from dmc.runtime import Checkpoints, Step


@dataclass(frozen=True)
class Saving:
    """path: the file to write, None for none. every: steps between two saves, None to save only when training ends.

    first: steps done before the training. checkpoints: written every `every` steps instead of the file, if not None.
    """

    step: Step
    first: int
    path: str | None
    every: int | None
    checkpoints: Checkpoints | None

    def resume(self) -> int:
        """Continues from the last checkpoint, if there is one: the number of steps of the training that it has done."""
        if self.checkpoints is None:
            return 0
        done = self.checkpoints.resume() - self.first
        if done < 0:
            fact = f"contains a checkpoint of step {self.first + done}, but the file is already at step {self.first}"
            raise InputError("--checkpoints", fact, hint="pass the directory of this training, or an empty one")
        if done:
            self._note(f"resuming after step {self.first + done}")
        return done

    def announce(self) -> None:
        """Announces before training what will be saved."""
        if self.path is None and self.checkpoints is None:
            self._note("the trained state will not be saved; to save it, pass -o FILE")
        if self.path is not None:
            every = "" if self.every is None or self.checkpoints is not None else f", every {self.every} steps"
            interrupted = ", on Ctrl-C" if self.step.peers is None else ""
            self._note(f"{self.path} will hold the trained step: at the end{interrupted}{every}")

    def after(self, count: int) -> None:
        """Called when `count` steps of the training have been queued."""
        if self.every is None or count % self.every:
            return
        if self.checkpoints is not None:
            self.checkpoints.save()
        elif self.path is not None:
            self.step.save(self.path)

    def on_interrupt(self) -> None:
        """Called when training was interrupted; several ranks may then be at different steps, and save nothing."""
        if self.step.peers is None:
            self.at_end()

    def at_end(self) -> None:
        """Called when training has ended. Writing is atomic: an old file stays intact until then."""
        if self.checkpoints is not None:
            # Otherwise `after` has saved it.
            if self.every is None or (self.step.steps_done - self.first) % self.every:
                self.checkpoints.save()
            self.checkpoints.wait()
        if self.path is not None:
            self.step.save(self.path)
            self._note(f"wrote {self.path} after step {self.step.steps_done}")

    def _note(self, text: str) -> None:
        if self.step.is_first:
            print(f"note: {text}", file=sys.stderr, flush=True)


@contextmanager
def terminable() -> Generator[None]:
    """Lets a termination request, as from a job scheduler, end the body like Ctrl-C."""

    def interrupt(signum: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
