"""Builders of slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir


def slice_from(value: ir.Value, offsets: Sequence[int], type_: ir.RankedTensorType) -> ir.Value:
    """The elements of `value` from `offsets` on, as a tensor of this type, at the insertion point."""
    attributes: dict[str, ir.Attribute] = {
        "static_offsets": ir.DenseI64ArrayAttr.get(list(offsets)),
        "static_sizes": ir.DenseI64ArrayAttr.get(list(type_.shape)),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(type_.shape)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
    }
    return ir.Operation.create("tensor.extract_slice", [type_], [value], attributes).results[0]


def concatenated(values: Sequence[ir.Value], dim: int) -> ir.Value:
    """Values one after another along a dimension, at the insertion point."""
    attributes = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return ir.Operation.create("tensor.concat", [joint_type(values, dim)], list(values), attributes).results[0]


def joint_type(values: Sequence[ir.Value], dim: int) -> ir.RankedTensorType:
    """The type of values one after another along a dimension."""
    shape = list(values[0].type.shape)
    shape[dim] = sum(value.type.shape[dim] for value in values)
    return ir.RankedTensorType.get(shape, values[0].type.element_type)
