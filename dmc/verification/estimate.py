"""An estimate of the time of an eager step on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from dmc._mlir import ir
from dmc.analysis.kernels.cost import work_of
from dmc.dialect import CompositeOp
from dmc.dialect.kinds import traits_of
from dmc.step_function import find_step, functions, symbol
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


@dataclass(frozen=True)
class Amount:
    """The work of an eager step.

    flops: of matrix products and convolutions. elements: processed by all other operations; those of a composite are
    its operands and results. draws: elements drawn. longest: the most terms of a sum.
    """

    flops: int = 0
    elements: int = 0
    draws: int = 0
    longest: int = 1

    def __add__(self, other: Amount) -> Amount:
        longest = max(self.longest, other.longest)
        return Amount(self.flops + other.flops, self.elements + other.elements, self.draws + other.draws, longest)

    def times(self, count: int) -> Amount:
        """This amount, `times` times."""
        return Amount(self.flops * count, self.elements * count, self.draws * count, self.longest)

    def seconds(self, rates: Rates) -> float:
        """The time that eager needs for this amount."""
        return self.flops * rates.flop + self.elements * rates.element + self.draws * rates.draw


def amount_of(module: ir.Module) -> Amount:
    """The work of a step in form imported."""
    return _Amounts({symbol(each): each.operation for each in functions(module)}, {}).of_function(
        symbol(find_step(module))
    )


@dataclass(frozen=True)
class _Amounts:
    functions: dict[str, Any]
    known: dict[str, Amount]

    def of_function(self, name: str) -> Amount:
        if name not in self.known:
            self.known[name] = self._of_region(self.functions[name])
        return self.known[name]

    def _of_region(self, op: Any) -> Amount:
        inner = (view.operation for region in op.regions for block in region for view in block.operations)
        return sum(map(self._of_op, inner), Amount())

    def _of_op(self, op: Any) -> Amount:
        if op.name == CompositeOp.OPERATION_NAME:
            return self._of_composite(op)
        if op.name == "scf.for":
            return self._of_region(op).times(_rounds(op))
        if not op.name.startswith("linalg."):
            return Amount()
        work = work_of(op)
        longest = max(1, work.iterations // max(1, _elements(op.results)))
        if work.kind == "matmul":
            return Amount(flops=work.flops, longest=longest)
        # Data movement is a view in eager, or part of the operation that follows.
        return Amount(longest=longest) if work.kind == "other" else Amount(0, work.iterations, 0, longest)

    def _of_composite(self, op: Any) -> Amount:
        inner = self.of_function(op.attributes["decomposition"].value)
        touched, draws = _elements(op.operands) + _elements(op.results), _draws(op)
        # Every draw is multiplied.
        return Amount(inner.flops, touched + 2 * draws, draws, inner.longest)


def _draws(op: Any) -> int:
    """Elements that a composite draws; eager draws in the forward pass only, so each pass counts half."""
    traits, parameters = traits_of(op), op.attributes["parameters"]
    if traits.draws and traits.queries is None:
        return _elements(op.results) // 2
    if traits.queries is None or not ir.FloatAttr(parameters["p"]).value:
        return 0
    query, key = (op.operands[traits.queries + i].type.shape for i in range(2))
    return prod(query[:-1]) * key[-2] // 2


def _elements(values: Sequence[ir.Value]) -> int:
    return sum(prod(value.type.shape) for value in values if isinstance(value.type, ir.RankedTensorType))


def _rounds(loop: Any) -> int:
    first, last, step = (ir.IntegerAttr(each.owner.attributes["value"]).value for each in list(loop.operands)[:3])
    return len(range(first, last, step))


def _shortest(clock: Callable[[], float], works: Sequence[Callable[[], object]]) -> list[float]:
    """The shortest time of each, interleaved, so that interference affects all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(_PROBES):
        for own, work in zip(times, works, strict=True):
            begin = clock()
            work()
            own.append(clock() - begin)
    return [min(own) for own in times]
