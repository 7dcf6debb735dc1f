"""The order of a block after a rewrite that did not keep it."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.kernels.graph import outer_reads


def operands_first(block: ir.Block) -> None:
    """Moves operations up that others before them read, directly or in their regions; the rest keeps its order."""
    *ops, terminator = [view.operation for view in block.operations]
    waiting, opened = set(ops), set[ir.Operation]()
    for op in ops:
        pending = [op]
        while pending:
            last = pending[-1]
            if last in waiting and last not in opened:
                opened.add(last)
                pending += [each for each in _makers(last) if each in waiting]
                continue
            pending.pop()
            if last in waiting:
                last.move_before(terminator)
                waiting.remove(last)


def _makers(op: ir.Operation) -> list[ir.Operation]:
    return [value.owner.operation for value in outer_reads(op) if not isinstance(value.owner, ir.Block)]
