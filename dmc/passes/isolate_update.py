"""dm-isolate-update"""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.passes.base import Pass
from dmc.walk import walk

KIND = "optimizer_update"
BARRIER = "util.optimization_barrier"


@dataclass(frozen=True)
class IsolateUpdate(Pass):
    """Puts an optimization barrier between what an optimizer update reads and what computes it.

    `p', m' = optimizer_update(p, gradient, m)` becomes `p', m' = optimizer_update(p, barrier(gradient), m)`.

    The new state is written into the storage of the old one. Without the barrier the backend may fuse the update into
    the operation that makes the gradient; where that operation also reads the old state, at other indices than the
    ones it writes, one workgroup would overwrite what another has yet to read.
    """

    name = "dm-isolate-update"

    def run(self, module: ir.Module) -> None:
        barriers: dict[ir.Value, ir.Value] = {}
        for op in [op for op in walk(module.operation) if op.name == "dm.composite" and _is_update(op)]:
            for index, operand in enumerate(op.operands):
                if isinstance(operand.owner, ir.Block):
                    continue
                if operand not in barriers:
                    barriers[operand] = _barrier(operand)
                op.operands[index] = barriers[operand]


def _is_update(op: ir.Operation) -> bool:
    return ir.StringAttr(op.attributes["kind"]).value.startswith(KIND)


def _barrier(value: ir.Value) -> ir.Value:
    assert isinstance(value.owner, ir.Operation | ir.OpView)
    with value.owner.operation.location:
        return ir.Operation.create(
            BARRIER, results=[value.type], operands=[value], ip=ir.InsertionPoint.after(value.owner.operation)
        ).results[0]
