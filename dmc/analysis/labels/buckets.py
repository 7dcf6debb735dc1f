"""What went into the buckets of form scheduled, found again where they are taken apart."""

from __future__ import annotations

from dmc import dialect as dm
from dmc._mlir import ir


def packed_value(result: ir.Value) -> ir.Value | None:
    """What was put into a bucket where `result` is taken out of it, behind the bucket's movement.

    None for the result of another operation, and where it is not known what filled the bucket. Where ranks exchange
    pieces, a kernel fills the bucket or takes it apart (dm-bucket), and what was put in has another size.
    """
    op = result.owner
    if isinstance(op, ir.Block) or not isinstance(op.opview, dm.UnpackOp | dm.KernelOp) or len(op.operands) != 1:
        return None
    filler = _before_movement(op.operands[0]).owner
    if isinstance(filler, ir.Block) or len(filler.operands) != len(op.results):
        return None
    # One side at most is a kernel: two only compute.
    fillers = dm.PackOp | dm.KernelOp if isinstance(op.opview, dm.UnpackOp) else dm.PackOp
    return filler.operands[ir.OpResult(result).result_number] if isinstance(filler.opview, fillers) else None


def _before_movement(value: ir.Value) -> ir.Value:
    """What a movement took that delivers `value`; `value` itself where none does."""
    while not isinstance(value.owner, ir.Block):
        match value.owner.opview:
            case dm.WaitOp():
                value = value.owner.operands[0]
            case dm.StartOp() as start if start.input is not None:
                value = start.input
            case _:
                break
    return value
