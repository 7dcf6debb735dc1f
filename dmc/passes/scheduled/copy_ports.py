"""dm-copy-ports."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.dialect.labels import Label, put_label
from dmc.passes.base import Pass
from dmc.step_function import HOST_ROLES, arguments, find_step, outputs

DEVICE, HOST = "device", "pinned_host"


@dataclass(frozen=True)
class CopyPorts(Pass):
    """Copies inputs from the host to the device before their use, and outputs back to the host.

    Controls and the batch arrive in pinned host memory: `f(%input)` becomes `f(copy(%input))`. Outputs, as opposed to
    new values of state, are returned as `copy(%loss)`, each in its own memory. Each copy is labelled with its port's
    name. State stays on the device. A port already copied is left unchanged. Linear in the number of operations.
    """

    name = "dm-copy-ports"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError where a result does not match the state whose new value it is."""
        step = find_step(module)
        with step.operation.location, ir.InsertionPoint.at_block_begin(step.entry_block):
            for port in arguments(step):
                if port.role in HOST_ROLES:
                    _copy_argument(step.arguments[port.index], port.name)
        _copy_outputs(step)


def _copy_argument(argument: ir.Value, name: str) -> None:
    # Without readers there is nothing to copy, and an argument read only by a copy is already copied.
    if all(isinstance(use.owner, dm.CopyOp) for use in argument.uses):
        return
    copy = _copy(argument, HOST, DEVICE, name)
    argument.replace_all_uses_except(copy.result, copy.operation)


def _copy_outputs(step: func.FuncOp) -> None:
    *_, terminator = [view.operation for view in step.entry_block.operations]
    for port in outputs(step):
        value = terminator.operands[port.index]
        if isinstance(value.owner, ir.Block) or not _is_on_host(value.owner):
            with _location_of(value, terminator), ir.InsertionPoint(terminator):
                terminator.operands[port.index] = _copy(value, DEVICE, HOST, port.name).result


def _copy(value: ir.Value, source: str, target: str, name: str) -> dm.CopyOp:
    copy = dm.copy(value, source=source, target=target)
    put_label(copy.operation, Label(name))
    return copy


def _is_on_host(op: ir.Operation) -> bool:
    return isinstance(op.opview, dm.CopyOp) and op.opview.target.value == HOST


def _location_of(value: ir.Value, otherwise: ir.Operation) -> ir.Location:
    return otherwise.location if isinstance(value.owner, ir.Block) else value.owner.location
