"""dm-copy-ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.storage.spaces import argument_spaces
from dmc.dialect.labels import Label, put_label
from dmc.passes.base import Pass
from dmc.program import DEVICE, HOST, PINNED_HOST, STAGED, Space
from dmc.step_function import HOST_ROLES, arguments, find_step, mutated_state, outputs


@dataclass(frozen=True)
class CopyPorts(Pass):
    """Copies inputs from the host to the device before their use, and outputs back to the host.

    Controls and the batch arrive in pinned host memory: `f(%input)` becomes `f(copy(%input))`. Kernels read staged ones
    (dm-stage-inputs) where they are, and only what else reads them, a movement or an output, reads a copy. Outputs, as
    opposed to new values of state, are returned as `copy(%loss)`, each in its own memory. State stays on the device,
    unless it has `dm.space = host`: then `%new = f(%old); return %new` becomes `%new = f(copy(%old)); return
    copy(%new)`, with both copies next to `f`. Each copy is labelled with its port's name. A port already copied is left
    unchanged. Linear in the number of operations.
    """

    name = "dm-copy-ports"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError where a result does not match the state whose new value it is."""
        step = find_step(module)
        spaces = argument_spaces(step)
        with step.operation.location, ir.InsertionPoint.at_block_begin(step.entry_block):
            for port in arguments(step):
                if port.role in HOST_ROLES:
                    _copy_argument(step.arguments[port.index], spaces[port.index], port.name)
        _copy_state(step)
        _copy_outputs(step)


def _copy_argument(argument: ir.Value, space: Space, name: str) -> None:
    # Without readers there is nothing to copy, and an argument read only by a copy is already copied.
    if all(isinstance(use.owner, dm.CopyOp) for use in argument.uses) or (space == STAGED and _kernels_read(argument)):
        return
    copy = _copy(argument, space, DEVICE, name)
    argument.replace_all_uses_except(copy.result, copy.operation)


def _kernels_read(value: ir.Value) -> bool:
    """Whether kernels alone read a value, also through views."""
    readers = [use.owner.operation for use in value.uses]
    return all(
        reader.name == dm.KernelOp.OPERATION_NAME or (is_view(reader) and _kernels_read(reader.results[0]))
        for reader in readers
    )


def _copy_outputs(step: func.FuncOp) -> None:
    *_, terminator = [view.operation for view in step.entry_block.operations]
    for port in outputs(step):
        value = terminator.operands[port.index]
        if not _is_copied_to(value, PINNED_HOST):
            with _location_of(value, terminator), ir.InsertionPoint(terminator):
                terminator.operands[port.index] = _copy(value, DEVICE, PINNED_HOST, port.name).result


def _copy_state(step: func.FuncOp) -> None:
    """Copies state that waits in host memory to the device, and its new value back."""
    spaces, new = argument_spaces(step), {argument.index: result.index for argument, result in mutated_state(step)}
    waiting = [(step.arguments[port.index], port) for port in arguments(step) if spaces[port.index] == HOST]
    *body, terminator = [view.operation for view in step.entry_block.operations]
    # Places are found before anything is changed: an operation's hash depends on its operands.
    places = {op: place for place, op in enumerate(body)}
    firsts = [_first(argument, places) for argument, _ in waiting]
    for (argument, port), first in zip(waiting, firsts, strict=True):
        _fetch(argument, port.name, new.get(port.index), None if first is None else body[first], terminator)
    for argument, port in waiting:
        if port.index in new:
            _put_back(argument, port.name, new[port.index], terminator)


def _first(argument: ir.Value, places: Mapping[ir.Operation, int]) -> int | None:
    """The place of the first operation, other than a copy, that reads an argument."""
    readers = [use.owner.operation for use in argument.uses if not isinstance(use.owner, dm.CopyOp)]
    return min((places[reader] for reader in readers if reader in places), default=None)


def _fetch(
    argument: ir.Value, name: str, new: int | None, first: ir.Operation | None, terminator: ir.Operation
) -> None:
    """Copies state to the device for its readers, the first of which is `first`. new: the result that is its new
    value."""
    # State that does not change is returned as it came.
    is_same = new is not None and terminator.operands[new] == argument
    ends = sum(use.owner.operation == terminator for use in argument.uses) - is_same
    if first is None and not ends:
        return
    before = first or terminator
    with before.location, ir.InsertionPoint(before):
        copy = _copy(argument, HOST, DEVICE, name)
    argument.replace_all_uses_except(copy.result, copy.operation)
    if is_same and new is not None:
        terminator.operands[new] = argument


def _put_back(argument: ir.Value, name: str, new: int, terminator: ir.Operation) -> None:
    """Copies the new value of state to host memory from where it is computed, but behind the copy of the old one,
    whose place it takes."""
    value = terminator.operands[new]
    if value == argument or _is_copied_to(value, HOST):
        return
    with _location_of(value, terminator), ir.InsertionPoint(terminator):
        copy = _copy(value, DEVICE, HOST, name).operation
    terminator.operands[new] = copy.results[0]
    before = [use.owner.operation for use in argument.uses if use.owner.operation != terminator]
    before += [] if isinstance(value.owner, ir.Block) else [value.owner.operation]
    if before:
        copy.move_after(reduce(lambda one, other: other if one.is_before_in_block(other) else one, before))


def _copy(value: ir.Value, source: Space, target: Space, name: str) -> dm.CopyOp:
    copy = dm.copy(value, source=source, target=target)
    put_label(copy.operation, Label(name))
    return copy


def _is_copied_to(value: ir.Value, space: Space) -> bool:
    """Whether a value is what a copy to this memory space gives."""
    copy = None if isinstance(value.owner, ir.Block) else value.owner.opview
    return isinstance(copy, dm.CopyOp) and copy.target.value == space


def _location_of(value: ir.Value, otherwise: ir.Operation) -> ir.Location:
    return otherwise.location if isinstance(value.owner, ir.Block) else value.owner.location
