"""Transposed matrices on the right of products, made once instead of read across their rows for every tile."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.dialect.iree import fusion_barrier
from dmc.walk import walk

# Rows of the product for each of which the transposed matrix is read once; with fewer, transposing does not pay.
ROWS = 64


def isolate_transposes(module: ir.Module) -> None:
    """Puts a barrier to fusion between a transposed matrix and the products that have it on their right.

    `matmul(x, transpose(w))` becomes `matmul(x, barrier(transpose(w)))`. IREE would make the transpose a part of the
    product, whose code for the CPU then reads `w` across its rows for every tile of the result.
    """
    barriers: dict[ir.Value, ir.Value] = {}
    for op in [op for op in walk(module.operation) if op.name == "linalg.matmul"]:
        right = op.operands[1]
        if not isinstance(right.owner, ir.Operation | ir.OpView) or right.owner.name != "linalg.transpose":
            continue
        if ir.RankedTensorType(op.operands[0].type).shape[0] < ROWS:
            continue
        if right not in barriers:
            barriers[right] = fusion_barrier(right)
        op.operands[1] = barriers[right]
