"""How long a step of eager takes on this machine, before it is taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from dmc._mlir import ir
from dmc.analysis.kernel_cost import work_of
from dmc.dialect import CompositeOp
from dmc.step_function import find_step, functions, symbol

_PRODUCT, _VECTOR = 384, 1 << 20


@dataclass(frozen=True)
class Amount:
    """flops: of matrix products and convolutions. elements: that all other operations make. longest: terms of a sum."""

    flops: int = 0
    elements: int = 0
    longest: int = 1

    def __add__(self, other: Amount) -> Amount:
        longest = max(self.longest, other.longest)
        return Amount(self.flops + other.flops, self.elements + other.elements, longest)

    def times(self, count: int) -> Amount:
        """As much, so many times."""
        return Amount(self.flops * count, self.elements * count, self.longest)

    def seconds(self) -> float:
        """The time that eager needs for this much, by a product and a sum that are timed here and now."""
        x, y = torch.ones(_PRODUCT, _PRODUCT), torch.ones(_VECTOR)
        product, vector = _seconds(lambda: x @ x), _seconds(lambda: y + y)
        return self.flops / (2 * _PRODUCT**3) * product + self.elements / _VECTOR * vector


def amount_of(module: ir.Module) -> Amount:
    """What a step in form imported does."""
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
            return self.of_function(op.attributes["decomposition"].value)
        if op.name == "scf.for":
            return self._of_region(op).times(_rounds(op))
        if not any(isinstance(result.type, ir.RankedTensorType) for result in op.results):
            return Amount()
        work = work_of(op)
        longest = max(1, work.iterations // max(1, min(prod(result.type.shape) for result in op.results)))
        if work.kind == "matmul":
            return Amount(flops=work.flops, longest=longest)
        return Amount(elements=work.iterations, longest=longest)


def _rounds(loop: Any) -> int:
    first, last, step = (ir.IntegerAttr(each.owner.attributes["value"]).value for each in list(loop.operands)[:3])
    return len(range(first, last, step))


def _seconds(work: Callable[[], object]) -> float:
    """The shortest of some runs: the others met somebody."""
    times: list[float] = []
    for _ in range(4):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)
