"""Rules of buckets: the offset table tiles the flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dmc._mlir import ir
from dmc.dialect._dm_gen import PackOp, UnpackOp
from dmc.dialect.rules import Violation, rule


@rule(PackOp)
def pack_tiles_its_result(op: PackOp) -> None:
    """The operands lie in the result without overlap or gap."""
    _check_tiling([value.type for value in op.inputs], list(op.offsets), op.result.type)


@rule(UnpackOp)
def unpack_tiles_its_operand(op: UnpackOp) -> None:
    """The results lie in the operand without overlap or gap."""
    _check_tiling([value.type for value in op.outputs], list(op.offsets), op.input.type)


def _check_tiling(tensors: Sequence[ir.Type], offsets: Sequence[int], flat: ir.Type) -> None:
    if not tensors:
        raise Violation("holds no tensor; a bucket has at least one")
    if len(offsets) != len(tensors):
        raise Violation(f"has {len(tensors)} tensors but {len(offsets)} offsets; each tensor has one")
    for tensor in tensors:
        if tensor.element_type != flat.element_type:
            raise Violation(f"mixes {tensor} with {flat}; a bucket has one element type")
    end = 0
    for offset, size, i in sorted((offset, prod(tensors[i].shape), i) for i, offset in enumerate(offsets)):
        if offset != end:
            fact = "overlaps the tensor before it" if offset < end else f"leaves a gap of {offset - end} elements"
            raise Violation(f"tensor {i} ({tensors[i]}) at offset {offset} {fact}; it must start at {end}")
        end += size
    if end != flat.shape[0]:
        raise Violation(f"the tensors have {end} elements together, but the buffer is {flat}")
