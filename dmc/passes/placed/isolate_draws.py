"""dm-isolate-draws"""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.dialect.iree import fusion_barrier
from dmc.dialect.kinds import traits_of
from dmc.passes.base import Pass
from dmc.walk import listed


@dataclass(frozen=True)
class IsolateDraws(Pass):
    """Puts a fusion barrier between a composite that draws random numbers and the index of its draw.

    `y = dropout(x, seed, slice(draws, 7))` becomes `y = dropout(x, seed, barrier(slice(draws, 7)))`.

    Each place has its own draw. Fused into the kernel, its index would be a constant there, and every layer would need
    different code; read from memory, repeated layers share kernels.
    """

    name = "dm-isolate-draws"

    def run(self, module: ir.Module) -> None:
        barriers: dict[ir.Value, ir.Value] = {}
        for op in [op for op in listed(module.operation) if op.name == "dm.composite"]:
            for index, operand in enumerate(op.operands):
                # Function arguments have no producer that could be fused.
                if isinstance(operand.owner, ir.Block) or not _is_draw(op, operand):
                    continue
                if operand not in barriers:
                    barriers[operand] = fusion_barrier(operand)
                op.operands[index] = barriers[operand]


def _is_draw(op: ir.Operation, operand: ir.Value) -> bool:
    return traits_of(op).draws and operand.type == ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
