"""The barrier to fusion that form lowered holds."""

from __future__ import annotations

from collections.abc import Callable

from dmc._mlir import ir
from dmc.walk import walk

BARRIER = "util.optimization_barrier"


def isolate_operands(module: ir.Module, wanted: Callable[[ir.Operation, ir.Value], bool]) -> None:
    """Puts a barrier after each computed operand of a composite that `wanted` picks; one barrier for each value.

    Arguments of functions are left alone: nothing computes them, so nothing can be fused with their use.
    """
    barriers: dict[ir.Value, ir.Value] = {}
    for op in [op for op in walk(module.operation) if op.name == "dm.composite"]:
        for index, operand in enumerate(op.operands):
            if isinstance(operand.owner, ir.Block) or not wanted(op, operand):
                continue
            if operand not in barriers:
                barriers[operand] = _barrier(operand)
            op.operands[index] = barriers[operand]


def _barrier(value: ir.Value) -> ir.Value:
    assert isinstance(value.owner, ir.Operation | ir.OpView)
    producer = value.owner.operation
    with producer.location:
        point = ir.InsertionPoint.after(producer)
        return ir.Operation.create(BARRIER, results=[value.type], operands=[value], ip=point).results[0]
