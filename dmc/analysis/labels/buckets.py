"""The members of buckets of form scheduled, traced from where they are unpacked."""

from __future__ import annotations

from dmc import dialect as dm
from dmc._mlir import ir


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
