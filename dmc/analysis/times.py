"""How long the operations of a step take on a machine, before they are formed into kernels."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.amounts import Amounts
from dmc.analysis.kernels.casts import WIDEN, is_cast
from dmc.analysis.storage.pieces import is_view
from dmc.dialect.plan import element_bytes
from dmc.machine import Machine, kernel_ns

# The bytes that an element of what is no product takes through memory, since kernels keep most of them inside.
_BYTES = 1.0


class Times:
    """Estimates: products at the machine's rate, the elements of everything else at its bandwidth."""

    def __init__(self, module: ir.Module, machine: Machine) -> None:
        """module: whose composites are whole."""
        self._amounts, self._machine = Amounts(module), machine

    def ns(self, op: ir.Operation) -> float:
        """Nanoseconds of an operation; of a loop, all its rounds."""
        amount = self._amounts.of_op(op)
        moved = _BYTES * amount.elements / self._machine.device.memories["device"].bandwidth * 1e9
        if not amount.flops:
            return moved
        return moved + kernel_ns(self._machine, "matmul", amount.flops, 0, _narrowest(op))


def _narrowest(op: ir.Operation) -> str:
    """The narrowest type of floating point that an operation reads, f32 of one that reads none.

    It reads what a cast widens: kernels take that up, and products of bf16 with a bias are imported like this.
    """
    read = [_before_cast(value) for value in op.operands]
    types = [value.type.element_type for value in read if isinstance(value.type, ir.RankedTensorType)]
    return str(min((each for each in types if isinstance(each, ir.FloatType)), key=element_bytes, default="f32"))


def _before_cast(value: ir.Value) -> ir.Value:
    """Behind a view, too, such as a transposition."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if not is_cast(op, WIDEN) and not is_view(op) and op.name != "linalg.transpose":
            break
        value = op.operands[0]
    return value
