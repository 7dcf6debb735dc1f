"""What an elementwise function of tensors computes for one element."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import func, ir, linalg
from dmc.errors import DmcError


def emit_element(function: func.FuncOp, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Emits, where we are, the scalar computation of `function` for one element; gives its scalar results.

    `arguments` are scalars: one element of each tensor argument, or the value of a tensor of rank 0. The shape of the
    tensors does not matter, so what was written for one shape serves every shape.

    Raises DmcError, naming the operation, if the function is not elementwise: if it holds anything but constants,
    `tensor.empty`, arithmetic on whole tensors, and `linalg.generic` whose loops are all parallel and whose operands
    are all read at one place.
    """
    (block,) = function.body.blocks
    scalars: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments, strict=True))
    *body, terminator = list(block.operations)
    for op in body:
        with op.location:
            _emit(op.operation, scalars)
    return [scalars[value] for value in terminator.operation.operands]


def _emit(op: ir.Operation, scalars: dict[ir.Value, ir.Value]) -> None:
    match op.name:
        case "arith.constant":
            scalars[op.results[0]] = _constant(op)
        case "tensor.empty":
            pass  # Nobody reads it: an output that is read would be missing from `scalars`.
        case "linalg.generic":
            _emit_generic(op, scalars)
        case name if name.partition(".")[0] in ("arith", "math"):
            types = [getattr(result.type, "element_type", result.type) for result in op.results]
            attributes = {key: op.attributes[key] for key in op.attributes}
            operands = [scalars[operand] for operand in op.operands]
            scalar = ir.Operation.create(op.name, results=types, operands=operands, attributes=attributes)
            scalars.update(zip(op.results, scalar.results, strict=True))
        case _:
            raise _not_elementwise(op, "only arithmetic, tensor.empty and linalg.generic can be")


def _emit_generic(op: ir.Operation, scalars: dict[ir.Value, ir.Value]) -> None:
    generic = op.opview
    assert isinstance(generic, linalg.GenericOp)
    _check_parallel(op)
    (body,) = op.regions[0].blocks
    values = dict(scalars)
    for operand, argument in zip([*generic.inputs, *generic.outputs], body.arguments, strict=True):
        if operand in scalars:
            values[argument] = scalars[operand]
        elif list(argument.uses):
            raise _not_elementwise(op, "an output without a value is read")
    *inner, terminator = list(body.operations)
    for original in inner:
        if original.operation.name == "linalg.index":
            raise _not_elementwise(op, "the place of the element is read")
        copy = original.operation.clone()
        for index, operand in enumerate(copy.operands):
            copy.operands[index] = values.get(operand, operand)
        values.update(zip(original.operation.results, copy.results, strict=True))
    for result, value in zip(op.results, terminator.operation.operands, strict=True):
        scalars[result] = values[value]


def _constant(op: ir.Operation) -> ir.Value:
    """The constant as a scalar; every element of a dense one must be the same."""
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        if not value.is_splat:
            raise _not_elementwise(op, "its elements differ")
        value = value.get_splat_value()
    return ir.Operation.create("arith.constant", results=[value.type], attributes={"value": value}).results[0]


def _check_parallel(op: ir.Operation) -> None:
    if any("parallel" not in str(kind) for kind in op.attributes["iterator_types"]):
        raise _not_elementwise(op, "it has a loop that is not parallel")
    shapes = [ir.RankedTensorType(operand.type).shape for operand in op.operands]
    places: set[tuple[str, ...]] = set()
    for attribute, shape in zip(op.attributes["indexing_maps"], shapes, strict=True):
        results = [str(result) for result in ir.AffineMapAttr(attribute).value.results]
        # A dimension of size one has one place, however the map writes it.
        place = tuple("0" if size == 1 else result for result, size in zip(results, shape, strict=True))
        if shape:
            places.add(place)
    if len(places) > 1:
        raise _not_elementwise(op, "its operands are read at different places")


def _not_elementwise(op: ir.Operation, fact: str) -> DmcError:
    return DmcError(op, f"is not elementwise: {fact}", "write the new state as an elementwise function of the old")
