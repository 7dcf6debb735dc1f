"""How fast a training runs, and what it waits for: as `dmc run` shows it meanwhile and says it at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from dmc.program.signature import TensorSpec
from dmc.program.sizes import size_text
from dmc.runtime import Step

# The share of the steps before which the device, and of a step's time that a rank, must wait to be worth a line.
_MOST, _LATE = 0.5, 0.05
Say = Callable[[str], None]


@dataclass
class Pace:
    """items: tokens or samples (`unit`) in the batch of a step. bytes: of device memory, of each rank.

    ended: when the loss of each step was known. reading: seconds in which the host had no batch yet. starved: the steps
    before which the device had nothing to do meanwhile.
    """

    items: int
    unit: str
    bytes: int
    ended: list[float] = field(default_factory=lambda: [time.perf_counter()])
    reading: float = 0.0
    starved: int = 0

    @staticmethod
    def of(step: Step) -> Pace:
        """The pace of a training that begins now."""
        return Pace(*items_of(step.signature.batch), step.device_bytes)

    def read(self, batch: Callable[[], Mapping[str, np.ndarray]], previous: Any) -> Mapping[str, np.ndarray]:
        """Reads the next batch. previous: the loss of the step before it, None before the first."""
        begin = time.perf_counter()
        made = batch()
        self.reading += time.perf_counter() - begin
        self.starved += previous is not None and previous.is_ready()
        return made

    def known(self, loss: Any) -> float:
        """Waits for the loss of a step."""
        value = float(loss)
        self.ended.append(time.perf_counter())
        return value

    @property
    def steps_ns(self) -> tuple[float, ...]:
        """The time from each step to the next, in nanoseconds; without the first, which waits for nothing."""
        return tuple(1e9 * (after - before) for before, after in zip(self.ended[1:], self.ended[2:], strict=False))

    def line(self) -> str:
        """The rate over the last steps, and the memory: `12.34 ms per step, 1,234 tokens/s, 1.20 GB`."""
        recent = self.ended[-20:]
        seconds = (recent[-1] - recent[0]) / max(len(recent) - 1, 1)
        return f"{seconds * 1e3:.2f} ms per step, {self._rate(seconds)}, {size_text(self.bytes)}"

    def summary(self) -> list[str]:
        """Lines at the end of a training of some steps."""
        steps = len(self.ended) - 1
        seconds = (self.ended[-1] - self.ended[0]) / max(steps, 1)
        lines = [f"{self._rate(seconds)}, {size_text(self.bytes)} of device memory per rank"] if steps else []
        if self.starved > _MOST * steps and self.reading > _MOST * (self.ended[-1] - self.ended[0]):
            fact = f"reading one takes {self.reading / steps * 1e3:.2f} ms of {seconds * 1e3:.2f} ms per step"
            lines.append(f"batches come too slowly: the device waited for {self.starved} of {steps}; {fact}")
        lines.append(f"{steps} steps, {seconds * 1e3:.2f} ms per step")
        return lines

    def _rate(self, seconds: float) -> str:
        return f"{self.items / max(seconds, 1e-9):,.0f} {self.unit}/s"


def items_of(batch: Sequence[TensorSpec]) -> tuple[int, str]:
    """How many tokens or samples a batch has: integers of two dimensions are tokens."""
    first = next((spec for spec in batch if spec.shape), None)
    if first is None:
        return 1, "batches"
    if first.dtype.startswith("i") and len(first.shape) == 2:
        return first.shape[0] * first.shape[1], "tokens"
    return first.shape[0], "samples"


def late_ranks(busy_s: Sequence[float], total_s: float) -> str | None:
    """Who waits for whom, from the seconds of each rank between its steps, when it waits for no step."""
    latest = max(range(len(busy_s)), key=busy_s.__getitem__)
    others = median(own for rank, own in enumerate(busy_s) if rank != latest)
    if busy_s[latest] - others < _LATE * total_s:
        return None
    fact = f"it was {busy_s[latest]:.2f} s of {total_s:.2f} s between steps, the others {others:.2f} s"
    return f"the other ranks wait for rank {latest}: {fact}"


@contextmanager
def shown(pace: Pace, steps: int, is_quiet: bool) -> Generator[Say]:
    """Prints lines; on a terminal with a bar below them that shows how far the training is, and its pace."""
    if is_quiet:
        yield lambda text: None
    elif not sys.stdout.isatty():
        yield lambda text: print(text, flush=True)
    else:
        # Imported here: only a terminal needs rich.
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        with Progress(*columns, transient=True) as progress:
            task = progress.add_task("", total=steps)

            def say(text: str) -> None:
                progress.console.print(text, markup=False, highlight=False)
                progress.update(task, advance=1, description=pace.line())

            yield say
