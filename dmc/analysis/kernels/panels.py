"""Matrices that lie in panels: strips of columns, each of which is in one piece (`dm-pack-panels` says why)."""

from __future__ import annotations

from dmc._mlir import ir

# Columns of a panel: a cache line, so that packing writes whole ones.
WIDTH = 16
# From panels [panel, depth, place in the panel] to a matrix [depth, panel, place], whose last two dimensions are one.
UNPACKED = [1, 0, 2]


def panels_of(matrix: ir.Value) -> ir.Value | None:
    """The panels of which a matrix is made: `collapse_shape(transpose(panels))`. None where it is made otherwise."""
    view = matrix.owner
    if isinstance(view, ir.Block) or view.name != "tensor.collapse_shape" or len(matrix.type.shape) != 2:
        return None
    rows = view.operation.operands[0]
    if isinstance(rows.owner, ir.Block) or not is_unpacking(rows.owner.operation):
        return None
    return rows.owner.operation.operands[0] if rows.type.shape[0] == matrix.type.shape[0] else None


def is_unpacking(op: ir.Operation) -> bool:
    """Whether an operation puts panels of f32 in the order of a matrix."""
    if op.name != "linalg.transpose" or list(ir.DenseI64ArrayAttr(op.attributes["permutation"])) != UNPACKED:
        return False
    kind = ir.RankedTensorType(op.results[0].type)
    return kind.shape[-1] == WIDTH and isinstance(kind.element_type, ir.F32Type)
