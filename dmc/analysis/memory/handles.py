"""V1 and V2 of form scheduled: every movement is waited for once, and its borrowed operands are not touched."""

from __future__ import annotations

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.dialect.labels import label_of, place_of
from dmc.dialect.movement import movement_of
from dmc.errors import ProofError


def check_handles(step: func.FuncOp) -> None:
    """Raises ProofError for a movement of `@step` that is not waited for exactly once, or used without its wait.

    Values are immutable, so before memory is planned a movement's operand cannot be written; afterwards
    `dmc.analysis.memory.contents` checks the bytes. A movement's result is only available from its wait.
    """
    for view in step.entry_block.operations:
        op = view.operation
        if op.name != dm.StartOp.OPERATION_NAME:
            continue
        users = [use.owner for use in op.results[0].uses]
        for user in users:
            if user.operation.name != dm.WaitOp.OPERATION_NAME:
                raise ProofError("V1", user, f"takes the handle of {told_movement(op)}, which only dm.wait may use")
        if not users:
            raise ProofError("V1", op, f"{told_movement(op)} is never waited for", "add a dm.wait for its handle")
        if len(users) > 1:
            places = ", ".join(str(user.operation.location) for user in users)
            fact = f"{told_movement(op)} is waited for {len(users)} times, at {places}"
            raise ProofError("V1", op, fact, "wait once and use the result")


def told_movement(start: ir.Operation) -> str:
    """The movement of a `dm.start`, and its label: `dm.all_reduce #3 (gradient of fc.weight)`."""
    movement = movement_of(start.opview).operation
    of = label_of(movement).short or place_of(start.location)
    name = f"{movement.name} #{start.opview.instance.value}"
    return f"{name} ({of})" if of else name
