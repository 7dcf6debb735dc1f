"""Operations that only cast or add the elements of tensors."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.memo import once

WIDEN, NARROW = "arith.extf", "arith.truncf"


def is_cast(op: ir.Operation, cast: str) -> bool:
    """Whether an operation casts each element of one tensor, elementwise, by the operation `cast`."""
    if op.name != "linalg.generic" or len(op.operands) != 2 or op.operands[0].type == op.operands[1].type:
        return False
    return _body(op) == [cast, "linalg.yield"]


def is_addition(op: ir.Operation) -> bool:
    """Whether an operation adds each element of one tensor to that of another."""
    if op.name != "linalg.generic" or len(op.operands) != 3 or len(op.results) != 1:
        return False
    return _body(op) == ["arith.addf", "linalg.yield"]


def _body(op: ir.Operation) -> list[str]:
    """The operations of a body without reductions or broadcasts; none for others."""
    # Every loop is one over the result, so none reduces.
    if not once(_are_identities, op.attributes["indexing_maps"]):
        return []
    return [view.operation.name for view in op.regions[0].blocks[0].operations]


def _are_identities(maps: ir.Attribute) -> bool:
    found = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(maps)]
    return all(each == ir.AffineMap.get_identity(each.n_dims) for each in found)
