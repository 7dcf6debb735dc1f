"""The one operation of IREE's `util` dialect that form lowered holds."""

from collections.abc import Sequence
from typing import Any

from dmc._mlir import ext, ir

# No postponed annotations: the bindings read the classes' annotations as they are.


class Util(ext.Dialect, name="util"):
    """IREE's dialect of small things; `dmc.dialect.load` loads our part of it into a context."""


class OptimizationBarrierOp(Util.Operation, name="optimization_barrier"):
    """Values pass through; nothing is fused, folded or moved across. Added by dm-isolate-update; consumed by IREE."""

    values: Sequence[ir.Value[Any]]
    outs: Sequence[ir.OpResult[Any]]

    def verify_invariants(self) -> bool:
        """As many results as operands, of the same types."""
        op = self.operation
        if [value.type for value in op.operands] == [result.type for result in op.results]:
            return True
        op.location.emit_error("util.optimization_barrier: results must have the types of the operands")
        return False
