"""Sums of products: matrix products and convolutions, named or as `linalg.generic`."""

from __future__ import annotations

from dmc._mlir import ir, linalg
from dmc.walk import loop_kinds

REDUCTION = "reduction"
_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul", "linalg.vecmat", "linalg.matvec", "linalg.dot")
_CONVOLUTIONS = ("linalg.conv", "linalg.depthwise_conv")


def is_contraction(op: ir.Operation) -> bool:
    """Whether an operation is a sum of products of its inputs: a matrix product or a convolution."""
    if op.name in _PRODUCTS or op.name.startswith(_CONVOLUTIONS):
        return True
    if op.name != "linalg.generic" or len(op.operands) != 3:
        return False
    if REDUCTION not in loop_kinds(op):
        return False
    names = [view.operation.name for view in op.regions[0].blocks[0].operations]
    return "arith.mulf" in names and "arith.addf" in names


def is_convolution(op: ir.Operation) -> bool:
    """Whether an operation is a convolution, or its gradient, in any layout: a contraction over images."""
    if op.name.startswith(_CONVOLUTIONS):
        return True
    is_image = op.name == "linalg.generic" and all(len(value.type.shape) == 4 for value in op.operands)
    return is_image and is_contraction(op) and not _is_batched(op)


def _is_batched(op: ir.Operation) -> bool:
    """Whether a loop stands in both factors and the result."""
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op)]
    dims = [{place.position for place in each.results if isinstance(place, ir.AffineDimExpr)} for each in maps]
    return bool(dims[0] & dims[1] & dims[2])
