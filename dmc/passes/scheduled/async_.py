"""dm-async."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.step_function import find_step
from dmc.walk import listed


@dataclass(frozen=True)
class Async(Pass):
    """Makes every movement of `@step` asynchronous: started on a queue and waited for immediately.

    `%y = all_reduce(%x)` becomes `%h, %t = start(%x) { all_reduce }` on queue comm, followed by `%y = wait(%h)`. Copies
    to the device go on copy_in, those from it on copy_out, and those between host memories on compute. Instances are
    numbered in program order, which is the same on all ranks; a message keeps its number. Movements already
    asynchronous stay. Linear in the number of operations.
    """

    name = "dm-async"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a movement outside `@step`, or nested inside another operation."""
        step = find_step(module)
        movements = list(_movements(module, step))
        taken = {op.attributes["instance"].value for op in listed(module.operation) if "instance" in op.attributes}
        free = (number for number in count() if number not in taken)
        for op in movements:
            instance = op.attributes["instance"].value if "instance" in op.attributes else next(free)
            _start(op, instance)


def _movements(module: ir.Module, step: func.FuncOp) -> Iterator[ir.Operation]:
    """The synchronous movements, in order."""
    for op in listed(module.operation):
        if not isinstance(op.opview, dm.MOVEMENTS) or isinstance(op.parent.opview, dm.StartOp):
            continue
        if op.parent != step.operation:
            fact = f"is inside {op.parent.operation.name}; movements become asynchronous only in @step's own block"
            raise DmcError(op, fact, "unroll loops (dm-unroll-loops) and inline calls in @step (dm-inline-composites)")
        yield op


def _start(op: ir.Operation, instance: int) -> None:
    """Replaces a movement by a start and a wait."""

    def movement(*arguments: ir.Value) -> ir.OpView:
        copy = op.clone()
        for index, argument in enumerate(arguments):
            copy.operands[index] = argument
        return copy.opview

    operand = op.operands[0] if len(op.operands) else None
    payload = op.results[0].type if len(op.results) else None
    with op.location, ir.InsertionPoint(op):
        start = dm.start(operand, movement, payload=payload, queue=queue_of(op), instance=instance)
        wait = dm.wait(start.handle)
    if payload is not None:
        op.results[0].replace_all_uses_with(wait.result)
    op.erase()


def queue_of(op: ir.Operation) -> str:
    """The queue of a movement."""
    if not isinstance(op.opview, dm.CopyOp):
        return "comm"
    spaces = {"copy_in": op.opview.target.value, "copy_out": op.opview.source.value}
    return next((queue for queue, space in spaces.items() if space == "device"), "compute")
