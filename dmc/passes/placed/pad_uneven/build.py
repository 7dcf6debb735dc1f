"""Tensors with padding made of those without, and back; padding set to a number."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import arith, ir, linalg, tensor
from dmc.passes.shared.slices import slice_from
from dmc.placement.pads import Pad, Pads


def converted(value: ir.Value, before: Pads, after: Pads) -> ir.Value:
    """A value with other padding, at the insertion point; new padding is zero."""
    for dim, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new and old is not None:
            value = _resized(value, dim, old.blocks, old.own)
        if old != new and new is not None:
            value = _resized(value, dim, new.blocks, new.wide)
    return value


def filled(value: ir.Value, pads: Pads, number: float) -> ir.Value:
    """A value with this number in the padding of dimensions, at the insertion point."""
    kind = ir.RankedTensorType(value.type)
    identity = ir.AffineMap.get_identity(kind.rank)
    generic = linalg.GenericOp(
        [kind],
        [value],
        [tensor.empty(list(kind.shape), kind.element_type)],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(identity)] * 2),
        ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * kind.rank),
    )
    body = generic.regions[0].blocks.append(kind.element_type, kind.element_type)
    with ir.InsertionPoint(body):
        other = arith.ConstantOp(kind.element_type, _number(kind.element_type, number)).result
        chosen = chosen_inside(body.arguments[0], {dim: pad for dim, pad in enumerate(pads) if pad}, other)
        linalg.YieldOp([chosen])
    return generic.results[0]


def chosen_inside(value: ir.Value, pads: dict[int, Pad], other: ir.Value) -> ir.Value:
    """In the body of an operation: `value`, but `other` at indices of these loops that are padding."""
    for loop, pad in pads.items():
        place = linalg.IndexOp(loop).result
        if pad.blocks > 1:
            place = arith.RemUIOp(place, _index(pad.wide)).result
        inside = arith.CmpIOp(arith.CmpIPredicate.ult, place, _index(pad.own)).result
        value = arith.SelectOp(inside, value, other).result
    return value


def _resized(value: ir.Value, dim: int, blocks: int, size: int) -> ir.Value:
    """A dimension's blocks with the first `size` of their elements, or with zeros behind."""
    kind = ir.RankedTensorType(value.type)
    shape = list(kind.shape)
    if blocks == 1:
        return _cut_or_padded(value, [*shape[:dim], size, *shape[dim + 1 :]])
    apart = [*shape[:dim], blocks, shape[dim] // blocks, *shape[dim + 1 :]]
    groups = [[i] for i in range(dim)] + [[dim, dim + 1]] + [[i + 1] for i in range(dim + 1, len(shape))]
    expanded = tensor.ExpandShapeOp(_type(kind, apart), value, groups, [], apart).result
    apart[dim + 1] = size
    whole = [*shape[:dim], blocks * size, *shape[dim + 1 :]]
    return tensor.CollapseShapeOp(_type(kind, whole), _cut_or_padded(expanded, apart), groups).result


def _cut_or_padded(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    kind = ir.RankedTensorType(value.type)
    more = [after - before for before, after in zip(kind.shape, shape, strict=True)]
    if min(more) < 0:
        return slice_from(value, [0] * len(shape), _type(kind, shape))
    attributes: dict[str, ir.Attribute] = {
        "static_low": ir.DenseI64ArrayAttr.get([0] * len(more)),
        "static_high": ir.DenseI64ArrayAttr.get(more),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
    }
    op = ir.Operation.create("tensor.pad", [_type(kind, shape)], [value], attributes, regions=1)
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(more), arg_locs=[op.location] * len(more))
    with ir.InsertionPoint(block):
        zero = arith.ConstantOp(kind.element_type, _number(kind.element_type, 0)).result
        ir.Operation.create("tensor.yield", operands=[zero])
    return op.results[0]


def number_for(element: ir.Type, number: float) -> ir.Value:
    """A constant, at the insertion point."""
    return arith.ConstantOp(element, _number(element, number)).result


def _type(kind: ir.RankedTensorType, shape: Sequence[int]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(shape), kind.element_type)


def _number(element: ir.Type, number: float) -> ir.Attribute:
    if isinstance(element, ir.FloatType):
        return ir.FloatAttr.get(element, number)
    return ir.IntegerAttr.get(element, int(number))


def _index(number: int) -> ir.Value:
    return arith.ConstantOp(ir.IndexType.get(), number).result
