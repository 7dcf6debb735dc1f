"""dm-drop-empty: empty tensors are neither stored nor moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from dmc._mlir import ir, tensor
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.step_function import find_step, mutated_state, outputs


@dataclass(frozen=True)
class DropEmpty(Pass):
    """Removes empty tensors from the dataflow of `@step`.

    `%s = reduce(%p : tensor<0x3xf32>)` becomes `%e = tensor.empty(); %s = reduce(%e)`, and empty state is returned as
    it came: it needs no memory, no kernel and no movement. Operations that only produced empty tensors are erased.
    """

    name = "dm-drop-empty"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for an empty output, which the host could not read."""
        step = find_step(module)
        *body, terminator = (view.operation for view in step.entry_block.operations)
        for argument, result in mutated_state(step):
            if _is_empty(result.type):
                terminator.operands[result.index] = step.arguments[argument.index]
        for port in outputs(step):
            if _is_empty(port.type):
                hint = "do not return it from a training step"
                raise DmcError(step.operation, f"output '{port.name}' has no elements ({port.type})", hint)
        made = [nothing for op in body for nothing in _read_nothing(op)]
        for op in reversed([*made, *body]):
            if any(_is_empty(result.type) for result in op.results) and all(not list(r.uses) for r in op.results):
                op.erase()


def _read_nothing(op: ir.Operation) -> Iterator[ir.Operation]:
    """Creates the empty operands of `op` in place; yields the former producers."""
    for index, operand in enumerate(op.operands):
        if _is_empty(operand.type) and not _is_made_of_nothing(operand):
            with op.location, ir.InsertionPoint(op):
                made = tensor.EmptyOp(list(operand.type.shape), operand.type.element_type)
            op.operands[index] = made.result
            yield made.operation


def _is_made_of_nothing(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == tensor.EmptyOp.OPERATION_NAME


def _is_empty(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and prod(type_.shape) == 0
