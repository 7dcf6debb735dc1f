"""dm-pace-messages."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes.base import Pass
from dmc.passes.shared.starts import wait_of, without_tokens
from dmc.step_function import find_step


@dataclass(frozen=True)
class PaceMessages(Pass):
    """Lets the messages of a pipeline overlap with what their rank computes.

    Messages no longer wait for the one before, which orders them until kernels are formed: their lane does. The wait
    for a send goes to before the message that comes next, until which its value is kept: `start(send %a); wait; f(%b);
    start(send %b)` becomes `start(send %a); f(%b); wait; start(send %b)`. Linear in the number of operations.
    """

    name = "dm-pace-messages"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a module without `@step`."""
        sent: dm.StartOp | None = None
        for view in list(find_step(module).entry_block.operations):
            if not isinstance(view, dm.StartOp) or not isinstance(dm.movement_of(view), dm.SendOp | dm.RecvOp):
                continue
            start = without_tokens(view)
            if sent is not None:
                wait_of(sent).operation.move_before(start.operation)
            sent = start if start.input is not None else None
