"""Views of form scheduled: operations whose result is one contiguous piece of their operand's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.plan import element_bytes, type_bytes

RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
_DYNAMIC = ir.ShapedType.get_dynamic_size()


def is_view(op: ir.Operation) -> bool:
    """Whether `op` costs nothing: a reshape, or a slice that is one piece of a dense row-major tensor."""
    if op.name in RESHAPES:
        return True
    if op.name == dm.AllSliceOp.OPERATION_NAME:
        return prod(op.operands[0].type.shape[: op.attributes["dim"].value]) == 1
    if op.name != "tensor.extract_slice" or len(op.operands) > 1:
        return False
    offsets, sizes, strides = _static(op)
    whole = list(op.operands[0].type.shape)
    return all(stride == 1 for stride in strides) and _is_one_piece(whole, sizes) and _DYNAMIC not in offsets


def piece_offset(op: ir.Operation, index: int = 0) -> int:
    """The byte offset of a view's result in its operand; `index` is the rank's place in a group's slices."""
    if op.name in RESHAPES:
        return 0
    if op.name == dm.AllSliceOp.OPERATION_NAME:
        return index * type_bytes(op.results[0].type)
    offsets, _, _ = _static(op)
    whole = op.operands[0].type
    elements = sum(offset * stride for offset, stride in zip(offsets, _row_major(whole.shape), strict=True))
    return elements * element_bytes(whole.element_type)


def is_packed(values: Iterable[ir.Value]) -> bool:
    """Whether a bucket contains one of the values, or a view of it, which then belongs where the bucket is."""
    for use in (use for value in values for use in value.uses):
        user = use.owner.operation
        if isinstance(user.opview, dm.PackOp | dm.UnpackOp) or (is_view(user) and is_packed(user.results)):
            return True
    return False


def _is_one_piece(whole: Sequence[int], sizes: Sequence[int]) -> bool:
    """After the first dimension in which the piece has more than one index, all dimensions are whole."""
    first = next((dim for dim, size in enumerate(sizes) if size != 1), len(sizes))
    return all(size == full for size, full in zip(sizes[first + 1 :], whole[first + 1 :], strict=True))


def _static(op: ir.Operation) -> tuple[list[int], list[int], list[int]]:
    offsets, sizes, strides = (list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
    return offsets, sizes, strides


def _row_major(shape: Any) -> list[int]:
    return [prod(shape[dim + 1 :]) for dim in range(len(shape))]
