"""Functions combined with 1, as tanh and erf in GELU and its gradient, so that only their absolute error matters."""

from __future__ import annotations

from typing import Any

from dmc._mlir import ir


def is_beside_one(op: Any) -> bool:
    """Whether every user of a function of f32 adds it to 1, or subtracts its square from 1."""
    (result,) = op.results
    return str(result.type) == "f32" and all(_is_absorbed(use.owner.operation, result) for use in result.uses)


def _is_absorbed(reader: Any, value: Any) -> bool:
    operands = list(reader.operands)
    if reader.name == "arith.addf":
        return any(_is_one(each) for each in operands)
    if reader.name != "arith.mulf" or operands != [value, value]:
        return False
    (square,) = reader.results
    return all(_is_taken_from_one(use.owner.operation, square) for use in square.uses)


def _is_taken_from_one(reader: Any, square: Any) -> bool:
    return reader.name == "arith.subf" and _is_one(reader.operands[0]) and reader.operands[1] == square


def _is_one(value: Any) -> bool:
    """Whether a value of a body is the constant 1, or an element of a constant tensor of ones."""
    if isinstance(value.owner, ir.Block):
        value = value.owner.owner.operands[ir.BlockArgument(value).arg_number]
        if isinstance(value.owner, ir.Block):
            return False
    if value.owner.name != "arith.constant":
        return False
    content = value.owner.attributes["value"]
    if isinstance(content, ir.DenseElementsAttr):
        return content.is_splat and content.get_splat_value().value == 1.0
    return content.value == 1.0
