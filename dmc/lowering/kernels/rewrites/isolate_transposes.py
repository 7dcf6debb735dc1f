"""dm-isolate-transposes"""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.dialect.iree import fusion_barrier
from dmc.rewriting.passes import Pass
from dmc.walk import walk

# The transposed matrix is read once per this many rows of the product; with fewer, transposing does not pay.
ROWS = 64


@dataclass(frozen=True)
class IsolateTransposes(Pass):
    """Puts a fusion barrier between a transposed matrix and the products that have it on their right.

    `matmul(x, transpose(w))` becomes `matmul(x, barrier(transpose(w)))`. IREE would fuse the transpose into the
    product, whose CPU code then reads `w` across its rows for every tile of the result.
    """

    name = "dm-isolate-transposes"

    def run(self, module: ir.Module) -> None:
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
