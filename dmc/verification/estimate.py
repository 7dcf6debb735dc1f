"""An estimate of the time of an eager step on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dmc._mlir import ir
from dmc.analysis.amounts import Amount, Amounts
from dmc.step_function import find_step, symbol
from dmc.verification.philox import BLOCKS, uniform_bits

_PRODUCT, _VECTOR, _DRAWS = 384, 1 << 20, 8 * BLOCKS
# The time of an element of `Amount` relative to one of a sum of two cached tensors: most of eager's operations write to
# new memory, and some compute an exponential. Measured: 6.8 for the demo GPT, 6.6 for BERT-small.
_SUMS = 6.5
# The shortest time of a probe counts: the others met interference.
_PROBES = 8


@dataclass(frozen=True)
class Rates:
    """Seconds that eager takes per floating-point operation of a product, per element, and per random draw."""

    flop: float
    element: float
    draw: float

    @staticmethod
    def measured() -> Rates:
        """Measures this machine now.

        On a shared machine, short multi-threaded work waits for its slowest thread much longer than a step does, so no
        rate is assumed slower than that of one core by its own clock.
        """
        x, y, threads = torch.ones(_PRODUCT, _PRODUCT), torch.ones(_VECTOR), torch.get_num_threads()
        works = (lambda: x @ x, lambda: y + y, lambda: uniform_bits((_DRAWS,), 0, 0))
        together = _shortest(time.perf_counter, works)
        torch.set_num_threads(1)
        try:
            alone = _shortest(time.thread_time, works)
        finally:
            torch.set_num_threads(threads)
        product, total, draws = map(min, together, alone)
        return Rates(product / (2 * _PRODUCT**3), _SUMS * total / _VECTOR, draws / _DRAWS)

    def seconds(self, amount: Amount) -> float:
        """The time that eager needs for an amount."""
        return amount.flops * self.flop + amount.elements * self.element + amount.draws * self.draw


def amount_of(module: ir.Module) -> Amount:
    """The work of a step in form imported."""
    return Amounts(module).of_function(symbol(find_step(module)))


def _shortest(clock: Callable[[], float], works: Sequence[Callable[[], object]]) -> list[float]:
    """The shortest time of each, interleaved, so that interference affects all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(_PROBES):
        for own, work in zip(times, works, strict=True):
            begin = clock()
            work()
            own.append(clock() - begin)
    return [min(own) for own in times]
