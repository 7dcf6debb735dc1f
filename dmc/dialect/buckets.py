"""Buckets: the layout of tensors in one flat buffer, and the rules of the offset table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from dmc._mlir import ir
from dmc.dialect._dm_gen import PackOp, UnpackOp
from dmc.dialect.plan import element_bytes
from dmc.dialect.rules import Violation, rule
from dmc.program import ALIGNMENT


def bucket_layout(counts: Sequence[int], element: ir.Type) -> tuple[list[int], int]:
    """The offsets of tensors of `counts` elements in a bucket, in sequence, and its length; all in elements.

    Each begins at a multiple of `ALIGNMENT` bytes, like a separate buffer, and so does the end. Raises
    Violation for elements without a size.
    """
    step = ALIGNMENT // element_bytes(element)
    *offsets, end = accumulate((-(-count // step) * step for count in counts), initial=0)
    return offsets, end


@rule(PackOp)
def pack_tiles_its_result(op: PackOp) -> None:
    """The operands are placed in the result without overlap, and without gaps except padding."""
    _check_tiling([value.type for value in op.inputs], list(op.offsets), op.result.type)


@rule(UnpackOp)
def unpack_tiles_its_operand(op: UnpackOp) -> None:
    """The results are placed in the operand without overlap, and without gaps except padding."""
    _check_tiling([value.type for value in op.outputs], list(op.offsets), op.input.type)


def _check_tiling(tensors: Sequence[ir.Type], offsets: Sequence[int], flat: ir.Type) -> None:
    if not tensors:
        raise Violation("contains no tensor; a bucket needs at least one")
    if len(offsets) != len(tensors):
        raise Violation(f"has {len(tensors)} tensors but {len(offsets)} offsets; each tensor has one")
    for tensor in tensors:
        if tensor.element_type != flat.element_type:
            raise Violation(f"mixes {tensor} with {flat}; a bucket has one element type")
    padding = (ALIGNMENT - 1) // element_bytes(flat.element_type)
    end = 0
    for offset, size, i in sorted((offset, prod(tensors[i].shape), i) for i, offset in enumerate(offsets)):
        if not end <= offset <= end + padding:
            fact = "overlaps the tensor before it" if offset < end else f"leaves a gap of {offset - end} elements"
            raise Violation(
                f"tensor {i} ({tensors[i]}) at offset {offset} {fact}; it must start at {end} or up to {padding} "
                f"elements after"
            )
        end = offset + size
    if not end <= flat.shape[0] <= end + padding:
        fact = f"end at {end}, but the buffer is {flat}; it must have {end} elements, or up to {padding} more"
        raise Violation(f"the tensors {fact}")
