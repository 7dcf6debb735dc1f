"""The storages of gradients in form scheduled, where optimizer updates are ordinary kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.labels.buckets import packed_value
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.storage.spaces import fetched
from dmc.analysis.storage.storages import Storages, value_bytes
from dmc.dialect.labels import label_of
from dmc.program.labels import GRADIENT
from dmc.step_function import STATE_ROLES, arguments, mutated_state


def find_gradients(step: func.FuncOp, storages: Storages) -> dict[int, str]:
    """The storages that hold gradients, with the parameter's name.

    A gradient is an operand, other than state, of a kernel that computes a new parameter, as large as its result. So
    are the values from which it derives by movements, buckets, and kernels with no other operand as large (scaling). So
    is the operand of a movement labelled as one; a bucket has the names of all members. Linear in the number of
    operands.
    """
    *_, terminator = storages.ops
    changes = [(old, terminator.operands[new.index]) for old, new in mutated_state(step)]
    state = {step.arguments[port.index] for port in arguments(step) if port.role in STATE_ROLES}
    tracer = _Tracer(storages, state, {storages.places[new].storage for _, new in changes})
    for old, new in changes:
        if old.role == "parameter":
            tracer.trace_update(new, old.name)
    for op in storages.ops:
        carried = label_of(dm.movement_of(op.opview).operation).short if isinstance(op.opview, dm.StartOp) else ""
        if carried.startswith(GRADIENT):
            tracer.name(op.results[0], carried.removeprefix(GRADIENT))
    return tracer.found


@dataclass
class _Tracer:
    """state: the arguments that are state. new_state: storages of new values of state."""

    storages: Storages
    state: set[ir.Value]
    new_state: set[int]
    found: dict[int, str] = field(default_factory=dict)
    _named: set[ir.Value] = field(default_factory=set)

    def trace_update(self, new: ir.Value, parameter: str) -> None:
        """Names the operands of kernels that compute a new value, directly or via new optimizer state."""
        open_values, seen = [new], {new}
        while open_values:
            for operand in self._inputs(_origin(open_values.pop())):
                if operand in seen:
                    continue
                seen.add(operand)
                if self.storages.places[operand].storage in self.new_state:
                    open_values.append(operand)
                else:
                    self.name(operand, parameter)

    def name(self, gradient: ir.Value, parameter: str) -> None:
        """Names the gradient, and the values from which it derives by movements and scaling."""
        while gradient not in self._named:
            for value in _path(gradient):
                self._named.add(value)
                # A storage larger than the value holds other values, too: a bucket.
                if self.storages.of(value).bytes == value_bytes(value):
                    self.found.setdefault(self.storages.places[value].storage, parameter)
            inputs = self._inputs(_origin(gradient))
            if len(inputs) != 1:
                return
            gradient = inputs[0]

    def _inputs(self, value: ir.Value) -> list[ir.Value]:
        """The operands, except state, of the kernel that produces `value` that are as large as `value`."""
        if isinstance(value.owner, ir.Block) or not isinstance(value.owner.opview, dm.KernelOp):
            return []
        operands = [each for each in value.owner.operands if value_bytes(each) == value_bytes(value)]
        return [each for each in dict.fromkeys(operands) if fetched(self.storages.of(each).value) not in self.state]


def _origin(value: ir.Value) -> ir.Value:
    """The values that movements, views and buckets pass on."""
    *_, last = _path(value)
    return last


def _path(value: ir.Value) -> Iterator[ir.Value]:
    """`value`, and its origins through each movement, view and bucket."""
    found: ir.Value | None = value
    while found is not None:
        yield found
        found = _before(found)


def _before(value: ir.Value) -> ir.Value | None:
    """One step back; None for a computed value, and a bucket without known members."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner
    match op.opview:
        case dm.WaitOp():
            return op.operands[0]
        case dm.StartOp():
            return op.opview.input
        case dm.UnpackOp() | dm.KernelOp():
            return packed_value(value)
        case _:
            # A slice of a larger value is a part of it, but the operand of an all_slice is the same on all ranks.
            is_same = is_view(op) and op.name != "tensor.extract_slice"
            return op.operands[0] if is_same else None
