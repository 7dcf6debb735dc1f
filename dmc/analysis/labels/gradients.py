"""Where gradients lie in form scheduled, where optimizer updates are kernels as any others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.labels.buckets import packed_value
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.storage.storages import Storages, value_bytes
from dmc.dialect.labels import label_of
from dmc.program.labels import GRADIENT
from dmc.step_function import STATE_ROLES, arguments, mutated_state


def find_gradients(step: func.FuncOp, storages: Storages) -> dict[int, str]:
    """The storages that hold gradients, with the name of the parameter.

    A gradient is what a kernel that makes a new parameter takes beside state, as large as what it makes. So is what it
    is made of by movements, in buckets, and by kernels that take nothing else as large: by scaling. So is what a
    movement carries that says so; a bucket has the names of all. Linear in the number of operands.
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
    """state: the arguments that are. new_state: storages of new values of state."""

    storages: Storages
    state: set[ir.Value]
    new_state: set[int]
    found: dict[int, str] = field(default_factory=dict)
    _named: set[ir.Value] = field(default_factory=set)

    def trace_update(self, new: ir.Value, parameter: str) -> None:
        """Names what the kernels take that make a new value, be it by way of new optimizer state."""
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
        """Names the gradient, and what it is made of by movements and by scaling."""
        while gradient not in self._named:
            for value in _path(gradient):
                self._named.add(value)
                # What a value is only a part of holds other things, too: a bucket.
                if self.storages.of(value).bytes == value_bytes(value):
                    self.found.setdefault(self.storages.places[value].storage, parameter)
            inputs = self._inputs(_origin(gradient))
            if len(inputs) != 1:
                return
            gradient = inputs[0]

    def _inputs(self, value: ir.Value) -> list[ir.Value]:
        """What the kernel that makes `value` takes that is as large as that, without state."""
        if isinstance(value.owner, ir.Block) or not isinstance(value.owner.opview, dm.KernelOp):
            return []
        operands = [each for each in value.owner.operands if value_bytes(each) == value_bytes(value)]
        return [each for each in dict.fromkeys(operands) if self.storages.of(each).value not in self.state]


def _origin(value: ir.Value) -> ir.Value:
    """What movements, views and buckets bring."""
    *_, last = _path(value)
    return last


def _path(value: ir.Value) -> Iterator[ir.Value]:
    """`value`, and what it was before each movement, each view, and each bucket that it went through."""
    found: ir.Value | None = value
    while found is not None:
        yield found
        found = _before(found)


def _before(value: ir.Value) -> ir.Value | None:
    """One step back; None behind what is computed, and where a bucket was not made of members."""
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
            # A slice of something larger is a part of it, but what an all_slice takes is the same on all ranks.
            is_same = is_view(op) and op.name != "tensor.extract_slice"
            return op.operands[0] if is_same else None
