"""Functions combined with 1, as in GELU and its gradient, so that only their absolute error matters.

That takes fewer instructions, which is energy where a GPU is at its power limit. A *share* is 0.5 · (1 + f(x)), where f
is tanh or erf.
"""

from __future__ import annotations

import math
from typing import Any

from dmc._mlir import ir

_FUNCTIONS = ("math.tanh", "math.erf")
_ARITHMETIC = ("arith.mulf", "arith.addf", "arith.subf")
# Times a factor it may be infinite.
_LARGE = 1e30


def is_beside_one(op: Any) -> bool:
    """Whether every user of a function of f32 adds it to 1, or subtracts its square from 1."""
    (result,) = op.results
    return str(result.type) == "f32" and all(_is_absorbed(use.owner.operation, result) for use in result.uses)


def share_of(op: Any) -> tuple[str, Any] | None:
    """The function f and the argument x, if an operation computes a share, and all else that reads f is beside 1."""
    sum_ = _beside(op, "arith.mulf", 0.5)
    value = None if sum_ is None else _beside(sum_, "arith.addf", 1.0)
    if value is None or value.name not in _FUNCTIONS or not is_beside_one(value):
        return None
    return value.name, value.operands[0]


def shares_beside_rests(op: Any) -> list[tuple[Any, Any]]:
    """The pairs s and t of an operation that computes s · (1 - t), where s is a share, or 1 ÷ (1 + eˣ)."""
    if op.name != "arith.mulf":
        return []
    first, second = op.operands
    return [
        (share, rest.owner.operands[1])
        for share, rest in ((first, second), (second, first))
        if _is_from_zero_to_one(share) and _is_taken_from_one(rest)
    ]


def _is_from_zero_to_one(value: Any) -> bool:
    is_made = not isinstance(value.owner, ir.Block)
    return is_made and (share_of(value.owner) is not None or is_inverse_above_one(value.owner))


def _is_taken_from_one(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and _takes_from_one(value.owner)


def _takes_from_one(op: Any) -> bool:
    return op.name == "arith.subf" and constant_of(op.operands[0]) == 1.0


def factor_of(op: Any) -> int | None:
    """The operand of a product that takes up a constant factor at no cost: a constant, or a sum of `is_even`."""
    if op.name != "arith.mulf":
        return None
    operands = list(op.operands)
    found = [i for i, each in enumerate(operands) if abs(constant_of(each) or math.inf) < _LARGE]
    return next(iter(found or [i for i, each in enumerate(operands) if is_even(each)]), None)


def is_even(value: Any) -> bool:
    """Whether a value is a sum of constants, or of constants times squares, of one sign: its coefficients may be
    rounded anew, since nothing cancels."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.addf":
        return False
    signs = [_sign_of(each) for each in value.owner.operands]
    return 0.0 not in signs and signs[0] == signs[1]


def _sign_of(term: Any) -> float:
    """Of a constant, or of a constant times a square; 0 for anything else."""
    known = constant_of(term)
    if known is None and not isinstance(term.owner, ir.Block) and term.owner.name == "arith.mulf":
        first, second = term.owner.operands
        known = constant_of(second) if _is_square(first) else constant_of(first) if _is_square(second) else None
    return 0.0 if not known or abs(known) >= _LARGE else math.copysign(1.0, known)


def _is_square(value: Any) -> bool:
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.mulf":
        return False
    first, second = value.owner.operands
    return first == second


def is_beside_share(op: Any) -> bool:
    """Whether an exponential is of a negative multiple of a square x², as a normal distribution's density is, and only
    added to shares, times constants and x."""
    power = op.operands[0].owner
    if isinstance(power, ir.Block) or power.name != "arith.mulf":
        return False
    for square, number in (tuple(power.operands), tuple(power.operands)[::-1]):
        known = constant_of(number)
        if known is not None and known < 0.0 and _is_square(square):
            return _is_added_to_shares(op.results[0], square.owner.operands[0])
    return False


def is_inverse_above_one(op: Any) -> bool:
    """Whether an operation of f32 computes 1 ÷ (1 + eˣ), as in a logistic function, that is only multiplied and added:
    less than the least normal number is as good as 0 then."""
    below = _beside(op, "arith.divf", 1.0)
    power = None if below is None else _beside(below, "arith.addf", 1.0)
    if power is None or power.name != "math.exp" or op.operands[1].owner != below:
        return False
    (result,) = op.results
    return str(result.type) == "f32" and all(use.owner.operation.name in _ARITHMETIC for use in result.uses)


def _is_added_to_shares(value: Any, base: Any) -> bool:
    """Whether all users multiply a value by constants or by `base`, and then add it to a share."""
    for reader in (use.owner.operation for use in value.uses):
        if reader.name == "arith.mulf":
            others = [each for each in reader.operands if each != value]
            is_bounded = all(each == base or constant_of(each) is not None for each in others)
            if not (others and is_bounded and _is_added_to_shares(reader.results[0], base)):
                return False
        elif reader.name != "arith.addf" or not any(_is_share(each) for each in reader.operands):
            return False
    return True


def _is_share(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and share_of(value.owner) is not None


def _is_absorbed(reader: Any, value: Any) -> bool:
    operands = list(reader.operands)
    if reader.name == "arith.addf":
        return any(constant_of(each) == 1.0 for each in operands)
    if reader.name != "arith.mulf" or operands != [value, value]:
        return False
    (square,) = reader.results
    readers = [use.owner.operation for use in square.uses]
    return all(_takes_from_one(each) and each.operands[1] == square for each in readers)


def _beside(op: Any, name: str, number: float) -> Any | None:
    """The operation in the same body whose result one of this name combines with a number."""
    if op.name != name:
        return None
    others = [each for each in op.operands if constant_of(each) != number]
    return others[0].owner if len(others) == 1 and not isinstance(others[0].owner, ir.Block) else None


def constant_of(value: Any) -> float | None:
    """The value of a body, if it is a constant, or an element of a constant tensor of equal numbers."""
    if isinstance(value.owner, ir.Block):
        op, number = value.owner.owner, ir.BlockArgument(value).arg_number
        # What a reduction adds to is no constant, though it begins as one.
        if number >= len(op.operands) - len(op.results):
            return None
        value = op.operands[number]
        if isinstance(value.owner, ir.Block):
            return None
    if value.owner.name == "arith.truncf" and str(value.type) == "f32":
        return constant_of(value.owner.operands[0])
    if value.owner.name != "arith.constant":
        return None
    content = value.owner.attributes["value"]
    if isinstance(content, ir.DenseElementsAttr):
        return content.get_splat_value().value if content.is_splat else None
    return content.value if isinstance(content, (ir.FloatAttr, ir.IntegerAttr)) else None
