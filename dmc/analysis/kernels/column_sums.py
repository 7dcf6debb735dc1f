"""Sums over all rows of a matrix, such as the gradient of a bias."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.kernels.casts import WIDEN, is_cast
from dmc.analysis.loops.splats import is_zero
from dmc.analysis.storage.pieces import RESHAPES
from dmc.memo import once

_ADD = ["arith.addf", "linalg.yield"]


@dataclass(frozen=True)
class ColumnSums:
    """The sums of each column of `matrix` [.., columns] in f32: the result of the last of `ops`, in their order."""

    matrix: ir.Value
    ops: tuple[ir.Operation, ...]

    @property
    def value(self) -> ir.Value:
        """The sums."""
        return self.ops[-1].results[0]

    @staticmethod
    def of(value: ir.Value, until: ir.Value | None = None) -> ColumnSums | None:
        """How a value adds up the rows of a matrix, which is widened before, and reshaped; None if it does not.

        until: where to stop looking further back.
        """
        ops: list[ir.Operation] = []
        while not (until is not None and value == until) and _is_made(value, is_sum=not ops):
            ops.insert(0, value.owner.operation)
            value = ops[0].operands[0]
        # A reshape may have given the rows other columns.
        is_whole = bool(ops) and _columns(value) == _columns(ops[-1].operands[0])
        return ColumnSums(value, tuple(ops)) if is_whole else None

    @staticmethod
    def readers(matrix: ir.Value) -> Iterator[ColumnSums]:
        """Those of a matrix."""
        pending = [matrix]
        while pending:
            for use in pending.pop().uses:
                reader = use.owner.operation
                if _passes_on(reader):
                    pending += reader.results
                elif _adds_up(reader) and (found := ColumnSums.of(reader.results[0], matrix)) is not None:
                    yield found


def _is_made(value: ir.Value, is_sum: bool) -> bool:
    """Whether a value is a sum over rows, or else only widened or reshaped."""
    if isinstance(value.owner, ir.Block):
        return False
    return (_adds_up if is_sum else _passes_on)(value.owner.operation)


def _passes_on(op: ir.Operation) -> bool:
    return op.name in RESHAPES or is_cast(op, WIDEN)


def _adds_up(op: ir.Operation) -> bool:
    """Whether an operation is the sum over all dimensions but the last, of floats in f32, from zero on."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or not is_zero(op.operands[1]):
        return False
    if [view.operation.name for view in op.regions[0].blocks[0].operations] != _ADD:
        return False
    made = ir.RankedTensorType(op.results[0].type)
    is_wide = isinstance(made.element_type, ir.F32Type) and made.element_type == op.operands[0].type.element_type
    return is_wide and once(_is_over_rows, op.attributes["indexing_maps"])


def _is_over_rows(maps: ir.Attribute) -> bool:
    """Whether all dimensions are read, and of the result only the last is more than one element."""
    read, made = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(maps)]
    last = ir.AffineDimExpr.get(read.n_dims - 1)
    others = [each for each in made.results if each != last]
    is_along = len(others) < len(made.results) and all(each == ir.AffineConstantExpr.get(0) for each in others)
    return is_along and read == ir.AffineMap.get_identity(read.n_dims)


def _columns(value: ir.Value) -> int:
    return ir.RankedTensorType(value.type).shape[-1]
