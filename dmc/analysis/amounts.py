"""The work of a step before its operations are formed into kernels: products, elements, random draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dmc._mlir import ir
from dmc.analysis.kernels.cost import work_of
from dmc.dialect import CompositeOp
from dmc.dialect.kinds import traits_of
from dmc.step_function import functions, symbol

LOOP = "scf.for"


@dataclass(frozen=True)
class Amount:
    """The work of operations as eager does it, one after the other.

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


class Amounts:
    """The work of the operations of a module whose composites are whole; each function is read once."""

    def __init__(self, module: ir.Module) -> None:
        self._functions: dict[str, Any] = {symbol(each): each.operation for each in functions(module)}
        self._known: dict[str, Amount] = {}

    def of_function(self, name: str) -> Amount:
        """The work of a call."""
        if name not in self._known:
            self._known[name] = self._of_region(self._functions[name])
        return self._known[name]

    def _of_region(self, op: Any) -> Amount:
        inner = (view.operation for region in op.regions for block in region for view in block.operations)
        return sum(map(self.of_op, inner), Amount())

    def of_op(self, op: Any) -> Amount:
        """The work of an operation, of a loop that of all its rounds."""
        if op.name == CompositeOp.OPERATION_NAME:
            return self._of_composite(op)
        if op.name == LOOP:
            return self._of_region(op).times(rounds(op))
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
        # Nobody computes the product with rows of zeros and one 1 that defines the gradient of a table.
        flops = 0 if traits_of(op).has_unread_rows else inner.flops
        # Every draw is multiplied.
        return Amount(flops, touched + 2 * draws, draws, inner.longest)


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


def rounds(loop: Any) -> int:
    """How often a loop between constant bounds runs."""
    first, last, step = (ir.IntegerAttr(each.owner.attributes["value"]).value for each in list(loop.operands)[:3])
    return len(range(first, last, step))
