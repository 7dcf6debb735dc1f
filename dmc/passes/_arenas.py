"""Where state lies in an arena: one flat tensor that holds many, each at an offset of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmc._mlir import arith, ir, linalg, tensor

# So that each member starts where vector loads and transfers like it.
ALIGNMENT_BYTES = 256
# A reduction over an arena runs over rows of this many elements first, in parallel.
ROW = 1024


def lay_out(types: Sequence[ir.RankedTensorType]) -> tuple[list[int], int]:
    """The offset of each tensor, and the length of the arena, in elements; a whole number of rows, at least one."""
    offsets: list[int] = []
    end = 0
    for tensor_type in types:
        if is_empty(tensor_type):
            offsets.append(0)  # Where the others end there may be no memory any more.
            continue
        unit = max(1, ALIGNMENT_BYTES * 8 // tensor_type.element_type.width)
        end = math.ceil(end / unit) * unit
        offsets.append(end)
        end += math.prod(tensor_type.shape)
    return offsets, max(1, math.ceil(end / ROW)) * ROW


def is_empty(kind: ir.Type) -> bool:
    """Whether a tensor of this type has no elements."""
    return 0 in ir.RankedTensorType(kind).shape


def gather(values: Sequence[ir.Value], offsets: Sequence[int], length: int) -> ir.Value:
    """Emits the flat tensor that holds `values` at `offsets`, and zeros between them.

    The backend writes a value right into its place instead of copying it if values are given in the order in which
    they are computed.
    """
    element = ir.RankedTensorType(values[0].type).element_type
    flat = linalg.fill(zero(element), outs=[tensor.empty([length], element)])
    for value, offset in zip(values, offsets, strict=True):
        if is_empty(value.type):
            continue
        line = _as_line(value)
        size = ir.RankedTensorType(line.type).shape[0]
        flat = tensor.InsertSliceOp(
            line, flat, [], [], [], static_offsets=[offset], static_sizes=[size], static_strides=[1]
        ).result
    return flat


def part(flat: ir.Value, shape: Sequence[int], offset: int = 0) -> ir.Value:
    """Emits the tensor of this shape that lies at `offset` in `flat`: the inverse of `gather`."""
    element, size = ir.RankedTensorType(flat.type).element_type, math.prod(shape)
    kind = ir.RankedTensorType.get(list(shape), element)
    line = tensor.ExtractSliceOp(
        ir.RankedTensorType.get([size], element),
        flat,
        [],
        [],
        [],
        static_offsets=[offset],
        static_sizes=[size],
        static_strides=[1],
    ).result
    if len(shape) == 1:
        return line
    if not shape:
        return tensor.CollapseShapeOp(kind, line, []).result
    return tensor.ExpandShapeOp(kind, line, [list(range(len(shape)))], [], list(shape)).result


def fence(values: Sequence[ir.Value]) -> ir.Value:
    """Emits a tensor<n × f32> of the first elements of n values."""
    return gather([_first(value) for value in values], list(range(len(values))), len(values))


def element(flat: ir.Value, index: int, kind: ir.Type) -> ir.Value | None:
    """Emits element `index` of `flat` as a value of type `kind`, tensor<f32> or tensor<i1>; None for other types."""
    ranked = ir.RankedTensorType(kind)
    if ranked.rank or str(ranked.element_type) not in ("f32", "i1"):
        return None
    point = ir.RankedTensorType.get([], ir.RankedTensorType(flat.type).element_type)
    value = tensor.ExtractSliceOp(
        point, flat, [], [], [], static_offsets=[index], static_sizes=[1], static_strides=[1]
    ).result
    return _with_elements(value, ranked.element_type)


def _first(value: ir.Value) -> ir.Value:
    """The first element of `value` as a tensor<f32>."""
    ranked = ir.RankedTensorType(value.type)
    ones = [1] * ranked.rank
    point = ir.RankedTensorType.get([], ranked.element_type)
    if ranked.rank:
        value = tensor.ExtractSliceOp(
            point, value, [], [], [], static_offsets=[0] * ranked.rank, static_sizes=ones, static_strides=ones
        ).result
    return _with_elements(value, ir.F32Type.get())


def zero(element: ir.Type) -> ir.Value:
    """Emits a zero of a float or integer type."""
    value = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    return ir.Operation.create("arith.constant", results=[element], attributes={"value": value}).results[0]


def squares(flat: ir.Value) -> ir.Value:
    """Emits the sum of the squares of a flat tensor of whole rows, as tensor<f32>."""
    arena = ir.RankedTensorType(flat.type)
    shape = [arena.shape[0] // ROW, ROW]
    kind = ir.RankedTensorType.get(shape, arena.element_type)
    rows = tensor.ExpandShapeOp(kind, flat, [[0, 1]], [], shape).result
    # Over rows first, which are independent; then over the sums of the rows.
    return _sum(_sum(rows, squared=True), squared=False)


def generic(
    types: Sequence[ir.Type],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    loops: Sequence[str],
) -> ir.Operation:
    """Emits a `linalg.generic` whose body is still empty; `loops` are "parallel" or "reduction"."""
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{loop}>") for loop in loops]
    op = linalg.GenericOp(
        list(types),
        list(inputs),
        list(outputs),
        ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps]),
        ir.ArrayAttr.get(kinds),
    )
    elements = [ir.RankedTensorType(value.type).element_type for value in (*inputs, *outputs)]
    op.regions[0].blocks.append(*elements)
    return op.operation


def _sum(value: ir.Value, squared: bool) -> ir.Value:
    """The sum over the last dimension, in f32."""
    rank, f32 = ir.RankedTensorType(value.type).rank, ir.F32Type.get()
    start = linalg.fill(zero(f32), outs=[tensor.empty(ir.RankedTensorType(value.type).shape[:-1], f32)])
    whole = ir.AffineMap.get_identity(rank)
    maps = [whole, whole.get_submap(list(range(rank - 1)))]
    op = generic([start.type], [value], [start], maps, ["parallel"] * (rank - 1) + ["reduction"])
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        element, total = _cast(body.arguments[0], f32), body.arguments[1]
        term = arith.MulFOp(element, element).result if squared else element
        linalg.YieldOp([arith.AddFOp(total, term).result])
    return op.results[0]


def _with_elements(value: ir.Value, element: ir.Type) -> ir.Value:
    """The tensor with its elements cast; itself where they have the type."""
    ranked = ir.RankedTensorType(value.type)
    if ranked.element_type == element:
        return value
    kind = ir.RankedTensorType.get(ranked.shape, element)
    whole = ir.AffineMap.get_identity(ranked.rank)
    op = generic([kind], [value], [tensor.empty(ranked.shape, element)], [whole] * 2, ["parallel"] * ranked.rank)
    body = op.regions[0].blocks[0]
    with ir.InsertionPoint(body):
        linalg.YieldOp([_cast(body.arguments[0], element)])
    return op.results[0]


def _cast(value: ir.Value, kind: ir.Type) -> ir.Value:
    """A scalar of one float, integer or boolean type in another; a boolean is whether the number is not zero."""
    if value.type == kind:
        return value
    if isinstance(value.type, ir.FloatType) and isinstance(kind, ir.FloatType):
        return (arith.ExtFOp if kind.width > value.type.width else arith.TruncFOp)(kind, value).result
    if isinstance(value.type, ir.FloatType):
        return arith.CmpFOp(arith.CmpFPredicate.UNE, value, zero(value.type)).result
    assert isinstance(value.type, ir.IntegerType)
    return (arith.UIToFPOp if value.type.width == 1 else arith.SIToFPOp)(kind, value).result


def _as_line(value: ir.Value) -> ir.Value:
    ranked = ir.RankedTensorType(value.type)
    line = ir.RankedTensorType.get([math.prod(ranked.shape)], ranked.element_type)
    if ranked.rank == 1:
        return value
    if ranked.rank == 0:
        return tensor.ExpandShapeOp(line, value, [], [], [1]).result
    return tensor.CollapseShapeOp(line, value, [list(range(ranked.rank))]).result
