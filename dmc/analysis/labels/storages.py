"""Readable names of the storages of `@step`: whose gradient, which module's activation, which state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.labels.buckets import packed_value
from dmc.analysis.labels.gradients import find_gradients
from dmc.analysis.storage.spaces import moves_state
from dmc.analysis.storage.storages import Storages
from dmc.dialect.labels import kernel_label_of, label_of, module_path
from dmc.program.labels import GRADIENT, SEPARATOR, short
from dmc.step_function import STATE_ROLES, Port, arguments, mutated_state, outputs

_CATEGORIES = {"parameter": "parameter", "frozen": "parameter", "optimizer": "optimizer"}


@dataclass(frozen=True)
class Named:
    """A storage's name and category (see `dmc.program.Buffer`)."""

    label: str
    category: str


def storage_labels(step: func.FuncOp, storages: Storages) -> list[Named]:
    """The name and category of each storage, in order.

    Gradients are those of `find_gradients`, and operands of movements labelled as such.
    """
    named: dict[int, Named] = {}
    for port in arguments(step):
        storage = storages.places[step.arguments[port.index]].storage
        named[storage] = Named(port.name, _category(port))
    *body, terminator = storages.ops
    for port in outputs(step):
        named.setdefault(storages.places[terminator.operands[port.index]].storage, Named(port.name, "output"))
    gradients = find_gradients(step, storages)
    for old, new in mutated_state(step):
        storage = storages.places[terminator.operands[new.index]].storage
        named.setdefault(storage, Named(f"new {old.name}", _category(old)))
    for start in (op.opview for op in body if isinstance(op.opview, dm.StartOp) and moves_state(op.opview)):
        # On the device, state that waits in host memory is what it is there.
        handle, given = storages.places[start.handle].storage, storages.places[start.input].storage
        known, other = (handle, given) if handle in named else (given, handle)
        if known in named:
            named.setdefault(other, named[known])
    for op in body:
        for value in op.results:
            if value in storages.places and storages.of(value).value == value:
                storage = storages.places[value].storage
                named.setdefault(storage, _gradient(gradients.get(storage)) or _name_of(value, storages, named))
    return [named[index] for index in range(len(storages.all))]


def label_of_op(op: ir.Operation) -> str:
    """A readable name of an op: the tensors that it moves or packs, or the path of its module; "" if unknown."""
    labels = [kernel_label_of(op), *(label_of(each).tensor for each in (op, *_movements(op)))]
    return next(filter(None, labels), "") or module_path(op.location)


def _gradient(parameter: str | None) -> Named | None:
    return None if parameter is None else Named(GRADIENT + parameter, "gradient")


def _movements(op: ir.Operation) -> list[ir.Operation]:
    """The movement that `op` starts, or that takes the bucket it fills."""
    match op.opview:
        case dm.StartOp():
            return [dm.movement_of(op.opview).operation]
        case dm.PackOp():
            takers = [use.owner for use in op.results[0].uses]
            return [each for taker in takers if isinstance(taker, dm.StartOp) for each in _movements(taker.operation)]
        case _:
            return []


def _category(port: Port) -> str:
    return _CATEGORIES.get(port.role, "state" if port.role in STATE_ROLES else "input")


def _name_of(value: ir.Value, storages: Storages, named: Mapping[int, Named]) -> Named:
    """The name of an operation's result, given the names of its operands."""
    op = value.owner.operation
    match op.opview:
        case dm.PackOp():
            return _name_of_bucket(op, [named[storages.places[member].storage] for member in op.operands])
        case dm.StartOp():
            source = None if op.opview.input is None else named[storages.places[op.opview.input].storage]
            return _name_of_movement(op, source)
        case _ if (packed := packed_value(value)) is not None:
            return Named(named[storages.places[packed].storage].label, "communication")
        case _:
            return Named(short(label_of_op(op)), "activation")


def _name_of_bucket(pack: ir.Operation, members: list[Named]) -> Named:
    is_gradient = any(member.category == "gradient" for member in members)
    label = short(SEPARATOR.join(dict.fromkeys(member.label for member in members)))
    # A concatenation stays where it is.
    other = "communication" if _movements(pack) else "activation"
    return Named(label, "gradient" if is_gradient else other)


def _name_of_movement(start: ir.Operation, source: Named | None) -> Named:
    if isinstance(dm.movement_of(start.opview), dm.CopyOp) and source is not None:
        return source
    if source is not None and source.category == "gradient":
        return source
    label = short(label_of_op(start))
    return Named(label, "gradient" if label.startswith(GRADIENT) else "communication")
