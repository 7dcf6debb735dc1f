"""How long a training step takes on a GPU, and how long its call keeps the host."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

STEPS, ROUNDS, ISSUED = 10, 5, 10


def clocked(step: Callable[[int], Any]) -> tuple[float, float]:
    """Milliseconds of a step among steps in flight, and microseconds of a call that nothing holds up; medians.

    step: issues a step by its number, and gives the loss, which can be read as a float and waits then.
    """
    last = step(0)
    rounds: list[float] = []
    for _ in range(ROUNDS):
        float(last)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for index in range(STEPS):
            last = step(index)
        float(last)
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - begin) / STEPS)
    host: list[float] = []
    for index in range(ISSUED):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        last = step(index)
        host.append(time.perf_counter() - begin)
        float(last)
    return 1e3 * statistics.median(rounds), 1e6 * statistics.median(host)
