"""Padding, slices, reshapes and concatenations of values that lie in other orders."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dmc._mlir import ir
from dmc.passes.scheduled.tensors.channels_last.images import Images, Lying
from dmc.passes.scheduled.tensors.channels_last.orders import Order, identity, is_image, permuted
from dmc.passes.shared.reshapes import COLLAPSE, EXPAND, reshape

PAD, EXTRACT, INSERT = "tensor.pad", "tensor.extract_slice", "tensor.insert_slice"
CONCAT = "tensor.concat"
# By operation, its attributes of one number for each dimension, and its operands that are images.
_LISTS = {
    PAD: (("static_low", "static_high"), 1),
    EXTRACT: (("static_offsets", "static_sizes", "static_strides"), 1),
    INSERT: (("static_offsets", "static_sizes", "static_strides"), 2),
}


def relaid(images: Images, op: ir.Operation) -> bool:
    """Lets padding, a slice or a reshape read a moved value where it lies, at the insertion point, if it can."""
    value = op.operands[0]
    if value not in images.moved or not is_image(value.type):
        return False
    if op.name in (EXPAND, COLLAPSE):
        return is_image(op.results[0].type) and _reshaped(images, op)
    return _sliced(images, op)


def joined(images: Images, op: ir.Operation) -> bool:
    """Lets a concatenation read moved values where they lie, at the insertion point; False if most have not moved."""
    sizes = {value: prod(value.type.shape) for value in op.operands}
    main = max((value for value in op.operands if value in images.moved), key=sizes.__getitem__)
    others = sum(sizes[value] for value in op.operands if value not in images.moved)
    if not is_image(op.results[0].type) or others > sum(sizes[value] for value in op.operands) - others:
        return False
    order = images.of(main).order
    type_ = permuted(op.results[0].type, order)
    dim = order.index(ir.IntegerAttr(op.attributes["dim"]).value)
    attributes = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    laid = [images.laid(value, order) for value in op.operands]
    copy = ir.Operation.create(CONCAT, [type_], laid, attributes)
    images.moved[op.results[0]] = Lying(copy.results[0], order)
    return True


def _sliced(images: Images, op: ir.Operation) -> bool:
    names, count = _LISTS[op.name]
    order = images.of(op.operands[0]).order
    ranks = {len(each.type.shape) for each in (*list(op.operands)[:count], *op.results)}
    # Numbers that are not known, and slices that drop dimensions, are rare.
    if ranks != {len(order)} or len(op.operands) != count:
        return False
    laid = [images.laid(value, order) for value in list(op.operands)[:count]]
    copy = op.clone()
    for i, value in enumerate(laid):
        copy.operands[i] = value
    for name in names:
        numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        copy.attributes[name] = ir.DenseI64ArrayAttr.get([numbers[dim] for dim in order])
    type_ = op.results[0].type
    copy.results[0].set_type(permuted(type_, order))
    images.moved[op.results[0]] = Lying(copy.results[0], order)
    kept = [dim for dim in order if type_.shape[dim] > 1]
    if not is_image(type_) and kept == sorted(kept):
        images.moved[op.results[0]] = Lying(_seen_as(copy.results[0], type_), identity(len(order)))
    return True


def _seen_as(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The elements of `value`, in their order, as a tensor of type `type_`."""
    every = [list(range(len(type_.shape)))]
    flat = ir.RankedTensorType.get([prod(type_.shape)], type_.element_type)
    return reshape(EXPAND, reshape(COLLAPSE, value, flat, every), type_, every)


def _reshaped(images: Images, op: ir.Operation) -> bool:
    """Dimensions may be split and joined if they stand one after the other as the value lies."""
    groups = [[ir.IntegerAttr(dim).value for dim in group] for group in ir.ArrayAttr(op.attributes["reassociation"])]
    order = images.of(op.operands[0]).order
    if op.name == EXPAND:
        new_order = [dim for own in order for dim in groups[own]]
        sizes = [len(groups[own]) for own in order]
    else:
        owner = {dim: i for i, group in enumerate(groups) for dim in group}
        new_order = list(dict.fromkeys(owner[dim] for dim in order))
        sizes = [len(groups[own]) for own in new_order]
        if [dim for own in new_order for dim in groups[own]] != list(order):
            return False
    _reshape(images, op, tuple(new_order), sizes)
    return True


def _reshape(images: Images, op: ir.Operation, order: Order, sizes: Sequence[int]) -> None:
    i64 = ir.IntegerType.get_signless(64)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    groups = [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    copy = op.clone()
    copy.operands[0] = images.of(op.operands[0]).tensor
    type_ = permuted(op.results[0].type, order)
    arrays = [ir.ArrayAttr.get([ir.IntegerAttr.get(i64, dim) for dim in group]) for group in groups]
    copy.attributes["reassociation"] = ir.ArrayAttr.get(arrays)
    if op.name == EXPAND:
        copy.attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(list(type_.shape))
    copy.results[0].set_type(type_)
    images.moved[op.results[0]] = Lying(copy.results[0], order)
