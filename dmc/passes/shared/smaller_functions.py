"""Functions on parts of their tensors, or on larger ones."""

from __future__ import annotations

from fractions import Fraction

from dmc._mlir import func, ir
from dmc.analysis.loops.shape_classes import Cuts, Shapes, loops_with_index, shrunk
from dmc.analysis.loops.splats import is_splat
from dmc.errors import DmcError
from dmc.passes.shared.local_ops import PLACES, scale
from dmc.passes.shared.splats import Splats

# How arguments, by index, and results are split.
Ends = tuple[tuple[tuple[int, Cuts], ...], tuple[Cuts, ...]]


def shrink(function: func.FuncOp, ends: Ends) -> Shapes:
    """Gives the function's values the shapes of a part. Its type stays; raises DmcError for what cannot be split so."""
    _unshare_indices(function)
    shapes, splats = shrunk(function, dict(ends[0]), ends[1]), Splats()
    for op in [view.operation for view in function.entry_block.operations if view.operation.name in PLACES]:
        scale(op, _counts(op, shapes))
    for op, operand, shape in shapes.splats:
        op.operands[operand] = splats.get(op.operands[operand], shape)
    for value, shape in shapes.values.items():
        if list(value.type.shape) != list(shape):
            _resize(value, shape)
    return shapes


def _counts(op: ir.Operation, shapes: Shapes) -> list[int | Fraction]:
    """The number of parts of each dimension of the tensor that `op` indexes."""
    whole = op.operands[0] if op.name == "tensor.extract_slice" else op.results[0]
    after = shapes.values.get(whole)
    if after is None:
        after = next(shape for reader, operand, shape in shapes.splats if reader == op and operand == 0)
    return [Fraction(before, size) if size else 1 for before, size in zip(whole.type.shape, after, strict=True)]


def _resize(value: ir.Value, shape: tuple[int, ...]) -> None:
    value.set_type(ir.RankedTensorType.get(shape, value.type.element_type))
    if isinstance(value.owner, ir.Block):
        return
    op = value.owner.operation
    if op.name == "tensor.expand_shape":
        op.attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(list(shape))
    if op.name == "arith.constant":
        raise DmcError(op, "is a table of values that would have to be split", "do not split its readers")


def _unshare_indices(function: func.FuncOp) -> None:
    """Gives each reader of a vector of indices its own: dimensions of one size share it, but are not split alike."""
    for op in [view.operation for view in function.entry_block.operations]:
        if op.name != "linalg.generic" or not loops_with_index(op) or not all(map(is_splat, op.operands)):
            continue
        for use in list(op.results[0].uses)[1:]:
            with op.location, ir.InsertionPoint.after(op):
                use.owner.operands[use.operand_number] = op.clone().results[0]
