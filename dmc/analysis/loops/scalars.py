"""The use of scalars in the body of a `linalg` operation: which it needs, its reductions, its linearity."""

from __future__ import annotations

from collections.abc import Collection

from dmc._mlir import ir
from dmc.analysis.loops.loops import MAX, MIN, SUM
from dmc.walk import terminator_of

# No unsigned extrema: ranks would combine theirs as signed numbers.
_KINDS = {
    **dict.fromkeys(("arith.addf", "arith.addi"), SUM),
    **dict.fromkeys(("arith.maximumf", "arith.maxnumf", "arith.maxsi"), MAX),
    **dict.fromkeys(("arith.minimumf", "arith.minnumf", "arith.minsi"), MIN),
}
_ADDITIONS = ("arith.addf", "arith.subf", "arith.addi", "arith.subi")
_PRODUCTS = ("arith.mulf", "arith.muli")
# Each partial sum is rounded separately, as where gradients are reduced in their own type.
_CONVERSIONS = ("arith.extf", "arith.truncf", "arith.negf")


def needed_arguments(block: ir.Block, results: Collection[int]) -> set[int]:
    """The block arguments from which the terminator's operands with these indices are computed."""
    *body, terminator = list(block.operations)
    needed = {terminator.operation.operands[i] for i in results}
    for op in reversed(body):
        if any(result in needed for result in op.operation.results):
            needed.update(op.operation.operands)
    return {i for i, argument in enumerate(block.arguments) if argument in needed}


def reduction_kind(block: ir.Block, result: int, output: int) -> str | None:
    """How the body reduces into block argument `output` to give `result`; None for unknown reductions."""
    argument, value = block.arguments[output], terminator_of(block).operands[result]
    if isinstance(value.owner, ir.Block):
        return None
    combined = value.owner.operation
    operands = list(combined.operands)
    if combined.name not in _KINDS or operands.count(argument) != 1:
        return None
    (other,) = [operand for operand in operands if operand != argument]
    is_free_of_output = output not in _arguments_of(block, other)
    return _KINDS[combined.name] if is_free_of_output else None


def is_linear(block: ir.Block, results: Collection[int]) -> bool:
    """Whether these results are jointly linear in all block arguments that they need.

    Then the body commutes with sums: its value on sums is the sum of its values on the terms.
    """
    linear: set[ir.Value] = set(block.arguments)
    tainted: set[ir.Value] = set(block.arguments)
    *body, terminator = list(block.operations)
    for view in body:
        op = view.operation
        if not any(operand in tainted for operand in op.operands):
            continue
        tainted.update(op.results)
        if _keeps_linearity(op, linear, tainted):
            linear.update(op.results)
    return all(terminator.operation.operands[i] in linear for i in results)


def _keeps_linearity(op: ir.Operation, linear: set[ir.Value], tainted: set[ir.Value]) -> bool:
    operands = list(op.operands)
    if op.name in (*_ADDITIONS, *_CONVERSIONS):
        return all(operand in linear for operand in operands)
    if op.name in _PRODUCTS:
        return any(a in linear and b not in tainted for a, b in (operands, reversed(operands)))
    return op.name == "arith.divf" and operands[0] in linear and operands[1] not in tainted


def _arguments_of(block: ir.Block, value: ir.Value) -> set[int]:
    needed = {value}
    for op in reversed(list(block.operations)):
        if any(result in needed for result in op.operation.results):
            needed.update(op.operation.operands)
    return {i for i, argument in enumerate(block.arguments) if argument in needed}
