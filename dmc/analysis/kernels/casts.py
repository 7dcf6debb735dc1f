"""Operations that only cast the elements of a tensor."""

from __future__ import annotations

from dmc._mlir import ir

WIDEN, NARROW = "arith.extf", "arith.truncf"


def is_cast(op: ir.Operation, cast: str) -> bool:
    """Whether an operation casts each element of one tensor, elementwise, by the operation `cast`."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    # Every loop is one over the result, so none reduces.
    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    if any(each != ir.AffineMap.get_identity(each.n_dims) for each in maps):
        return False
    return [view.operation.name for view in op.regions[0].blocks[0].operations] == [cast, "linalg.yield"]
