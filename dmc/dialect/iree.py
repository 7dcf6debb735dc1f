"""The operation of IREE's dialects that form placed may contain; `dmc.dialect.load` loads it into a context."""

from collections.abc import Sequence
from typing import Any

from dmc._mlir import ext, ir

# No postponed annotations: the bindings read the classes' annotations directly.

# IREE's name is compute_barrier.start, but MLIR cannot register a name with a second dot; `dmc.lowering.iree`
# corrects it.
FUSION_BARRIER = "iree_tensor_ext.compute_barrier_start"


class TensorExt(ext.Dialect, name="iree_tensor_ext"):
    """IREE's dialect for tensors before bufferisation."""


class ComputeBarrierStartOp(TensorExt.Operation, name="compute_barrier_start"):
    """A value passes through, and is in memory there: no kernel is fused across it.

    after: at most one value, which is computed before anything reads the result. IREE's own operation has nothing like
    it: where there is one, dmc must form the kernels.
    """

    value: ir.Value[Any]
    after: Sequence[ir.Value[Any]]
    out: ir.OpResult[Any]

    def verify_invariants(self) -> bool:
        """The result has the type of the operand, and there is at most one value to wait for."""
        op = self.operation
        if op.operands[0].type != op.results[0].type:
            op.location.emit_error(f"{op.name}: the result must have the type of the operand")
            return False
        if len(op.operands) > 2:
            op.location.emit_error(f"{op.name}: waits for {len(op.operands) - 1} values, and may wait for one")
            return False
        return True


def fusion_barrier(value: ir.Value) -> ir.Value:
    """Emits a barrier after the producer of `value`; returns its result."""
    assert isinstance(value.owner, ir.Operation | ir.OpView), "an argument has no producer"
    producer = value.owner.operation
    with producer.location:
        point = ir.InsertionPoint.after(producer)
        return ir.Operation.create(FUSION_BARRIER, results=[value.type], operands=[value], ip=point).results[0]
