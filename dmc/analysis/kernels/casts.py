"""Operations that only cast the elements of a tensor."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.memo import once

WIDEN, NARROW = "arith.extf", "arith.truncf"


def is_cast(op: ir.Operation, cast: str) -> bool:
    """Whether an operation casts each element of one tensor, elementwise, by the operation `cast`."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or op.operands[0].type == op.operands[1].type:
        return False
    # Every loop is one over the result, so none reduces.
    if not once(_are_identities, op.attributes["indexing_maps"]):
        return False
    return [view.operation.name for view in op.regions[0].blocks[0].operations] == [cast, "linalg.yield"]


def _are_identities(maps: ir.Attribute) -> bool:
    found = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(maps)]
    return all(each == ir.AffineMap.get_identity(each.n_dims) for each in found)
