"""dm-isolate-draws"""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.dialect.iree import fusion_barrier
from dmc.passes.base import Pass
from dmc.walk import walk

KINDS = ("dropout", "attention", "attention_backward")


@dataclass(frozen=True)
class IsolateDraws(Pass):
    """Puts a barrier to fusion between a composite that draws random numbers and the number of its draw.

    `y = dropout(x, seed, slice(draws, 7))` becomes `y = dropout(x, seed, barrier(slice(draws, 7)))`.

    Each place has a draw of its own. Fused into the kernel its number would be a constant there, and every layer would
    need code of its own; read from memory it leaves repeated layers with the same kernels.
    """

    name = "dm-isolate-draws"

    def run(self, module: ir.Module) -> None:
        barriers: dict[ir.Value, ir.Value] = {}
        for op in [op for op in walk(module.operation) if op.name == "dm.composite"]:
            for index, operand in enumerate(op.operands):
                # Nothing computes the arguments of a function, so nothing can be fused with their use.
                if isinstance(operand.owner, ir.Block) or not _is_draw(op, operand):
                    continue
                if operand not in barriers:
                    barriers[operand] = fusion_barrier(operand)
                op.operands[index] = barriers[operand]


def _is_draw(op: ir.Operation, operand: ir.Value) -> bool:
    draws = ir.StringAttr(op.attributes["kind"]).value in KINDS
    return draws and operand.type == ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
