"""How the code of a dispatch accesses each of its buffers, derived from its operations."""

from __future__ import annotations

from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import iree_tensor_ext, stream

from dmc.lowering.kernels.order import code_of


def binding_accesses(executable: Any) -> tuple[str, ...]:
    """For each buffer of a `stream.executable`, in order, its access: "", "r", "w" or "rw".

    A buffer used by anything but a load or a store counts as read and written.
    """
    block = code_of(executable)
    return tuple(_access(argument) for argument in block.arguments if str(argument.type) == "!stream.binding")


def _access(binding: ir.Value) -> str:
    done: set[str] = set()
    for use in binding.uses:
        view = use.owner.opview
        if not isinstance(view, stream.BindingSubspanOp):
            return "rw"
        done.update(*(_done(each.owner.opview, view.result) for each in view.result.uses))
    return "".join(sorted(done))


def _done(op: Any, buffer: ir.Value) -> str:
    match op:
        case iree_tensor_ext.DispatchTensorLoadOp():
            return "r"
        case iree_tensor_ext.DispatchTensorStoreOp() if op.target == buffer:
            return "w"
        case _:
            return "rw"
