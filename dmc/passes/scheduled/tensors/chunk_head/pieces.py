"""Values piece by piece: computed from pieces of operands, or slices of what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.kernels.casts import WIDEN, is_cast
from dmc.passes.shared.loops import PARALLEL, loops, scalar
from dmc.passes.shared.slices import slice_from

EMPTY, FILL = "tensor.empty", "linalg.fill"


@dataclass(frozen=True)
class Pieces:
    """One of `count` equal pieces of each value, that of number `index`. known: by value and dimension."""

    index: int
    count: int
    known: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)

    def of(self, value: ir.Value, dim: int) -> ir.Value:
        """The piece of a value along a dimension; always the same one for the same value."""
        if (value, dim) not in self.known:
            self.known[value, dim] = self._made(value, dim)
        return self.known[value, dim]

    def compute(self, op: ir.Operation, dims: Mapping[int, int], along: Mapping[int, int]) -> ir.Operation:
        """An operation on pieces of the operands in `dims`, along these dimensions; results in `along` are pieces."""
        operands = {i: self.of(op.operands[i], dim) for i, dim in dims.items()}
        copy = op.clone()
        for i, operand in operands.items():
            copy.operands[i] = operand
        for i, dim in along.items():
            copy.results[i].set_type(self._type(op.results[i], dim))
            self.known[op.results[i], dim] = copy.results[i]
        return copy

    def _made(self, value: ir.Value, dim: int) -> ir.Value:
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if owner is not None and owner.name == EMPTY:
            return ir.Operation.create(EMPTY, [self._type(value, dim)]).results[0]
        if owner is not None and owner.name == FILL:
            return self.compute(owner, {1: dim}, {0: dim}).results[0]
        if owner is not None and is_cast(owner, WIDEN):
            # In memory it would be wide, and a product that reads it a product of wide numbers.
            return self.compute(owner, {0: dim, 1: dim}, {0: dim}).results[0]
        type_ = self._type(value, dim)
        offsets = [self.index * size if i == dim else 0 for i, size in enumerate(type_.shape)]
        return slice_from(value, offsets, type_)

    def _type(self, value: ir.Value, dim: int) -> ir.RankedTensorType:
        shape = list(value.type.shape)
        shape[dim] //= self.count
        return ir.RankedTensorType.get(shape, value.type.element_type)


def added(total: ir.Value, value: ir.Value) -> ir.Value:
    """The sum of two tensors of one type, elementwise, at the insertion point."""
    rank = len(total.type.shape)
    out = ir.Operation.create(EMPTY, [total.type]).results[0]
    places = [[ir.AffineExpr.get_dim(i) for i in range(rank)]] * 3
    return loops([total, value, out], places, [PARALLEL] * rank, lambda x, y, _: scalar("arith.addf", x, y)).results[0]
