"""Strength reduction in generated kernels: fewer instructions for a value; see `dmc.kernels.generated.beside_one`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dmc._mlir import ir
from dmc.kernels.generated import arithmetic
from dmc.kernels.generated.beside_one import (
    constant_of,
    factor_of,
    is_beside_share,
    is_even,
    share_of,
    shares_beside_rests,
)
from dmc.kernels.generated.value import Value, literal
from dmc.kernels.generated.writer import Writer

_LOG2_E = math.log2(math.e)
# Emits an operand of an operation of a body.
Emit = Callable[[Any], Value]


def shortened(writer: Writer, op: Any, emit: Emit) -> Value | None:
    """The result of an operation by a shorter formula; None where there is none."""
    if (share := share_of(op)) is not None:
        function, argument = share
        if function == "math.erf":
            return arithmetic.float_op(writer, op, [emit(argument)], "share_by_erf")
        # 0.5 · (1 + tanh y) = 1 ÷ (1 + 2^(-2 log₂ e · y)).
        return arithmetic.float_op(writer, op, [_scaled(writer, argument, -2.0 * _LOG2_E, emit)], "share_by_power")
    if op.name == "math.exp" and is_beside_share(op):
        return arithmetic.float_op(writer, op, [_scaled(writer, op.operands[0], _LOG2_E, emit)], "math.exp2")
    for share, other in shares_beside_rests(op):
        # The same number may stand in the body twice.
        if (made := emit(share)).text == emit(other).text:
            return arithmetic.float_op(writer, op, [made], "without_square")
    return None


def _scaled(writer: Writer, value: Any, factor: float, emit: Emit) -> Value:
    """A value of a body times a number, which a coefficient of it, or those of a sum, take up."""
    if (known := constant_of(value)) is not None:
        return literal(known * factor, str(value.type))
    if is_even(value):
        terms = [_scaled(writer, each, factor, emit) for each in value.owner.operands]
        return arithmetic.float_op(writer, value.owner, terms)
    taking = None if isinstance(value.owner, ir.Block) else factor_of(value.owner)
    if taking is None:
        made = emit(value)
        text = writer.line("product", f"{made.text} * {factor!r}", made.variables)
        return Value(text, made.dtype, made.held, made.variables)
    operands = list(value.owner.operands)
    factors = [_scaled(writer, each, factor, emit) if i == taking else emit(each) for i, each in enumerate(operands)]
    return arithmetic.float_op(writer, value.owner, factors)
