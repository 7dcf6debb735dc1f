"""Splat tensors: a rank creates its part of one itself, however it is split."""

from __future__ import annotations

from dmc._mlir import ir

_EMPTY, _FILL, _CONSTANT = "tensor.empty", "linalg.fill", "arith.constant"


def is_splat(value: ir.Value) -> bool:
    """Whether all elements are the same constant or scalar, or uninitialised."""
    if isinstance(value.owner, ir.Block) or not isinstance(value.type, ir.RankedTensorType):
        return False
    op = value.owner.operation
    if op.name == _FILL:
        return not isinstance(op.operands[0].type, ir.RankedTensorType) and is_splat(op.operands[1])
    if op.name == _CONSTANT:
        dense = op.attributes["value"]
        return isinstance(dense, ir.DenseElementsAttr) and dense.is_splat
    return op.name == _EMPTY


def is_zero(value: ir.Value) -> bool:
    """Whether a scalar is the constant zero, or a tensor is zero everywhere."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == _FILL:
        return is_zero(op.operands[0])
    if op.name != _CONSTANT:
        return False
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return False
        attribute = attribute.get_splat_value()
    return isinstance(attribute, ir.FloatAttr | ir.IntegerAttr) and attribute.value == 0
