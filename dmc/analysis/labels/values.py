"""The user's view of the values of `@step`: parameters, inputs and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from dmc._mlir import func, ir
from dmc.analysis.labels.updates import gradients
from dmc.dialect.labels import Label
from dmc.program.labels import GRADIENT
from dmc.step_function import arguments, results
from dmc.walk import is_parallel

# Operations that contribute no elements of their own.
_EMPTY = ("tensor.empty", "linalg.fill", "arith.constant")
_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "linalg.transpose")


def value_labels(step: func.FuncOp) -> dict[ir.Value, Label]:
    """The labels of values, in form imported: arguments, new values of state, and gradients.

    A gradient is an operand of an optimizer update, and the values from which it derives elementwise, as long as
    nothing else reads them.
    """
    names = {port.name for port in arguments(step) if port.name}
    labels = {step.arguments[port.index]: Label(port.name) for port in arguments(step) if port.name}
    *_, terminator = step.entry_block.operations
    for port in results(step):
        if port.name in names:
            labels.setdefault(terminator.operands[port.index], Label(port.name))
    for parameter, gradient in gradients(step):
        if parameter in labels:
            _label_gradient(gradient, Label(GRADIENT + labels[parameter].tensor), labels)
    return labels


def _label_gradient(value: ir.Value, label: Label, labels: dict[ir.Value, Label]) -> None:
    open_values = [value]
    while open_values:
        value = open_values.pop()
        if value in labels or isinstance(value.owner, ir.Block):
            continue
        labels[value] = label
        open_values += [each for each in _made_of(value) if _is_read_once(each)]


def _made_of(value: ir.Value) -> Iterator[ir.Value]:
    """The tensors that contribute one element to each element of `value`."""
    op = value.owner.operation
    if op.name == "scf.for":
        *_, terminator = op.regions[0].blocks[0].operations
        yield terminator.operands[ir.OpResult(value).result_number]
    elif op.name in _RESHAPES or op.name.startswith("arith.") or _is_elementwise(op):
        for operand in op.operands:
            if isinstance(operand.owner, ir.Block) or operand.owner.name in _EMPTY:
                continue
            if isinstance(operand.type, ir.RankedTensorType) and _size(operand) == _size(value):
                yield operand


def _is_elementwise(op: ir.Operation) -> bool:
    if op.name != "linalg.generic":
        return False
    return is_parallel(op)


def _is_read_once(value: ir.Value) -> bool:
    # A value may have very many uses.
    return len([use for use, _ in zip(value.uses, range(2), strict=False)]) == 1


def _size(value: ir.Value) -> int:
    return prod(ir.RankedTensorType(value.type).shape)
