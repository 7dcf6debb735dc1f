"""The members of buckets, traced from where they are packed or unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.labels import label_of
from dmc.program.labels import SEPARATOR


def members_of(movement: ir.Operation) -> Sequence[Sequence[int]]:
    """In form placed, the shapes of what a rank gives of each tensor that a movement's label names.

    Empty where it does not carry a bucket. In the gather after an exchange a rank gives one flat piece of each member.
    """
    (given,), (received,) = movement.operands, movement.results
    readers = [use.owner.opview for use in received.uses]
    if not isinstance(given.owner, ir.Block) and isinstance(given.owner.opview, dm.PackOp):
        tensors, whole = list(given.owner.operands), given
    elif len(readers) == 1 and isinstance(readers[0], dm.UnpackOp):
        tensors, whole = list(readers[0].outputs), received
    else:
        return ()
    if len(label_of(movement).tensor.split(SEPARATOR)) != len(tensors):
        return ()
    if whole == given:
        return [list(each.type.shape) for each in tensors]
    share = prod(whole.type.shape) // prod(given.type.shape)
    return [[prod(each.type.shape) // share] for each in tensors]


def packed_value(result: ir.Value) -> ir.Value | None:
    """The value packed into a bucket from which `result` is unpacked, after the bucket's movement.

    None for other operations' results, and where the bucket's members are unknown. Where ranks exchange pieces, a
    kernel packs or unpacks the bucket (dm-bucket), and the packed value has another size.
    """
    op = result.owner
    if isinstance(op, ir.Block) or not isinstance(op.opview, dm.UnpackOp | dm.KernelOp) or len(op.operands) != 1:
        return None
    filler = _before_movement(op.operands[0]).owner
    if isinstance(filler, ir.Block) or len(filler.operands) != len(op.results):
        return None
    # At most one side is a kernel: two would be mere computation.
    fillers = dm.PackOp | dm.KernelOp if isinstance(op.opview, dm.UnpackOp) else dm.PackOp
    return filler.operands[ir.OpResult(result).result_number] if isinstance(filler.opview, fillers) else None


def _before_movement(value: ir.Value) -> ir.Value:
    """The operand of the movement that delivers `value`; `value` itself if there is none."""
    while not isinstance(value.owner, ir.Block):
        match value.owner.opview:
            case dm.WaitOp():
                value = value.owner.operands[0]
            case dm.StartOp() as start if start.input is not None:
                value = start.input
            case _:
                break
    return value
