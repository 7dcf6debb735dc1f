"""Scalar operations of `arith` and `math` in numpy, on arrays of any shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmc.dtypes import numpy_type
from dmc.errors import DmcError


def _signed(value: Any) -> Any:
    """Integers as `arith` interprets them as signed; the bit of a set i1 is its sign."""
    return -np.asarray(value).astype(np.int8) if np.asarray(value).dtype == np.bool_ else value


def _unsigned(value: Any) -> Any:
    """The same bits as unsigned."""
    array = np.asarray(value)
    return array if array.dtype == np.bool_ else array.view(f"u{array.dtype.itemsize}")


# By the number of the predicate in `arith`.
FLOAT_COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: np.zeros(np.broadcast(a, b).shape, np.bool_),
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda a, b: (a < b) | (a > b),
    lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    lambda a, b: ~((a < b) | (a > b)),
    lambda a, b: ~(a <= b),
    lambda a, b: ~(a < b),
    lambda a, b: ~(a >= b),
    lambda a, b: ~(a > b),
    np.not_equal,
    lambda a, b: np.isnan(a) | np.isnan(b),
    lambda a, b: np.ones(np.broadcast(a, b).shape, np.bool_),
)
INTEGER_COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    np.equal,
    np.not_equal,
    lambda a, b: _signed(a) < _signed(b),
    lambda a, b: _signed(a) <= _signed(b),
    lambda a, b: _signed(a) > _signed(b),
    lambda a, b: _signed(a) >= _signed(b),
    lambda a, b: _unsigned(a) < _unsigned(b),
    lambda a, b: _unsigned(a) <= _unsigned(b),
    lambda a, b: _unsigned(a) > _unsigned(b),
    lambda a, b: _unsigned(a) >= _unsigned(b),
)
# Operations that combine any number of values, in any order.
REDUCTIONS: dict[str, Any] = {
    **dict.fromkeys(("arith.addf", "arith.addi"), np.add),
    **dict.fromkeys(("arith.mulf", "arith.muli"), np.multiply),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi"), np.maximum),
    **dict.fromkeys(("arith.minimumf", "arith.minsi"), np.minimum),
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **REDUCTIONS,
    **dict.fromkeys(("arith.subf", "arith.subi"), np.subtract),
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": lambda a, b: _unsigned(a) >> _unsigned(b),
    # Toward zero.
    "arith.divsi": lambda a, b: (a - np.fmod(a, b)) // b,
    "arith.remsi": np.fmod,
    "arith.maxui": lambda a, b: np.maximum(_unsigned(a), _unsigned(b)),
    "arith.minui": lambda a, b: np.minimum(_unsigned(a), _unsigned(b)),
    "arith.select": np.where,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.acos": np.arccos,
    "math.acosh": np.arccosh,
    "math.asin": np.arcsin,
    "math.asinh": np.arcsinh,
    "math.atan": np.arctan,
    "math.atan2": np.arctan2,
    "math.atanh": np.arctanh,
    "math.cbrt": np.cbrt,
    "math.ceil": np.ceil,
    "math.copysign": np.copysign,
    "math.cos": np.cos,
    "math.cosh": np.cosh,
    "math.erf": np.vectorize(math.erf),
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.floor": np.floor,
    "math.fpowi": np.power,
    "math.log": np.log,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.powf": np.power,
    "math.roundeven": np.round,
    "math.rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "math.sin": np.sin,
    "math.sinh": np.sinh,
    "math.sqrt": np.sqrt,
    "math.tan": np.tan,
    "math.tanh": np.tanh,
    "math.trunc": np.trunc,
    **dict.fromkeys(("arith.extf", "arith.truncf", "arith.fptosi"), lambda x: x),
    **dict.fromkeys(("arith.extsi", "arith.sitofp", "arith.index_cast"), _signed),
    **dict.fromkeys(("arith.extui", "arith.uitofp", "arith.index_castui"), _unsigned),
    "arith.trunci": lambda x: x,
}
# On i1, where a set bit is -1: operations whose meaning on numpy's booleans differs.
BITS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("arith.addi", "arith.subi"), np.logical_xor),
    "arith.maxsi": np.logical_and,
    "arith.minsi": np.logical_or,
    # The lowest bit; numpy asks whether any is set.
    "arith.trunci": lambda x: x & 1,
}


def compute(op: Any, operands: list[Any]) -> Any:
    """The result of an elementwise operation; its dtype is that of the result's (element) type.

    Raises DmcError for an unsupported operation.
    """
    dtype = dtype_of(op.results[0].type)
    with np.errstate(all="ignore"):
        if op.name == "arith.cmpf":
            return FLOAT_COMPARISONS[op.attributes["predicate"].value](*operands)
        if op.name == "arith.cmpi":
            return INTEGER_COMPARISONS[op.attributes["predicate"].value](*operands)
        if op.name not in FUNCTIONS:
            raise DmcError(op, "the interpreter does not support it", "define it in dmc/interpreter/scalars.py")
        function = BITS.get(op.name, FUNCTIONS[op.name]) if dtype == np.bool_ else FUNCTIONS[op.name]
        return np.asarray(function(*operands)).astype(dtype)


def dtype_of(type_: Any) -> Any:
    """The numpy type of a scalar type or of a tensor's elements."""
    return numpy_type(str(getattr(type_, "element_type", type_)))
