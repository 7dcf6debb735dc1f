"""Pooling and convolution read only the part of their input that their windows cover.

The window's size is that of an operand. Where that is never read (pooling), or is a splat constant, IREE drops it and
infers the size from the input, so that rows and columns beyond the last window would fall into it.
"""

from __future__ import annotations

from typing import Any

from dmc._mlir import ir, linalg, tensor
from dmc.walk import walk


def crop(module: ir.Module) -> None:
    """Slices the inputs of windows to what they cover; modifies `module`.

    `pooling(x: 1x1x3x3, window: 2x2)` with stride 2 becomes `pooling(x[0:2, 0:2], window)`.
    """
    for op in [op for op in walk(module.operation) if op.name.startswith("linalg.") and _has_loops(op)]:
        maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op)]
        last = _last(op, maps)
        moved_over = [i for i, map_ in enumerate(maps) if any(isinstance(at, ir.AffineAddExpr) for at in map_.results)]
        for number in moved_over:
            operand, reached = op.operands[number], [_value(at, last) + 1 for at in maps[number].results]
            if reached != list(ir.ShapedType(operand.type).shape):
                op.operands[number] = _corner(op, operand, reached)


def _has_loops(op: Any) -> bool:
    return len(op.results) > 0 and len(op.regions) > 0 and len(op.operands) > 0


def _last(op: Any, maps: list[Any]) -> dict[int, int]:
    """The last iteration of each loop, which is the last index along a dimension of some operand."""
    return {
        place.position: size - 1
        for operand, map_ in zip(op.operands, maps, strict=True)
        if map_.results
        for place, size in zip(map_.results, ir.ShapedType(operand.type).shape, strict=True)
        if isinstance(place, ir.AffineDimExpr)
    }


def _value(place: Any, loops: dict[int, int]) -> int:
    """The value of an index expression at an iteration."""
    if isinstance(place, ir.AffineDimExpr):
        return loops[place.position]
    if isinstance(place, ir.AffineConstantExpr):
        return place.value
    left, right = _value(place.lhs, loops), _value(place.rhs, loops)
    if isinstance(place, ir.AffineAddExpr):
        return left + right
    assert isinstance(place, ir.AffineMulExpr), f"{place} is not a window index"
    return left * right


def _corner(op: Any, source: ir.Value, shape: list[int]) -> ir.Value:
    """The leading slice of `source` of this shape."""
    type_ = ir.RankedTensorType.get(shape, ir.RankedTensorType(source.type).element_type)
    edges = {"static_offsets": [0] * len(shape), "static_sizes": shape, "static_strides": [1] * len(shape)}
    with ir.InsertionPoint(op), op.location:
        return tensor.ExtractSliceOp(type_, source, [], [], [], **edges).result
