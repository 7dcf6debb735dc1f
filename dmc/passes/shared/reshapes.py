"""Builders of reshapes."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir

EXPAND, COLLAPSE = "tensor.expand_shape", "tensor.collapse_shape"


def reshape(name: str, value: ir.Value, kind: ir.RankedTensorType, groups: Sequence[Sequence[int]]) -> ir.Value:
    """`value` as a tensor of type `kind`. name: EXPAND or COLLAPSE. groups: the dimensions that are one in the result
    or operand."""
    i64 = ir.IntegerType.get_signless(64)
    arrays = [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, dim) for dim in group]) for group in groups]
    attributes: dict[str, ir.Attribute] = {"reassociation": ir.ArrayAttr.get(arrays)}
    if name == EXPAND:
        attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(list(kind.shape))
    return ir.Operation.create(name, results=[kind], operands=[value], attributes=attributes).results[0]
