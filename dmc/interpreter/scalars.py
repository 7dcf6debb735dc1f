"""Scalar operations of `arith` and `math` in numpy: they take arrays of any shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dmc.interpreter.dtypes import DTYPES, Array

FLOAT_COMPARISONS: dict[int, Callable[[Any, Any], Any]] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    6: lambda a, b: (a < b) | (a > b),
    8: lambda a, b: ~((a < b) | (a > b)),
    9: lambda a, b: ~(a <= b),
    10: lambda a, b: ~(a < b),
    11: lambda a, b: ~(a >= b),
    12: lambda a, b: ~(a > b),
    13: np.not_equal,
    14: lambda a, b: np.isnan(a) | np.isnan(b),
}
# Unsigned comparisons (6 to 9) do not occur.
INTEGER_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("arith.addf", "arith.addi"), np.add),
    **dict.fromkeys(("arith.subf", "arith.subi"), np.subtract),
    **dict.fromkeys(("arith.mulf", "arith.muli"), np.multiply),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi"), np.maximum),
    **dict.fromkeys(("arith.minimumf", "arith.minsi"), np.minimum),
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shrsi": np.right_shift,
    "arith.select": np.where,
    "math.exp": np.exp,
    "math.fpowi": np.power,
    "math.log": np.log,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "math.tanh": np.tanh,
    "math.expm1": np.expm1,
    "math.absf": np.abs,
    "math.erf": np.vectorize(math.erf),
    **dict.fromkeys(
        ("arith.extf", "arith.truncf", "arith.index_cast", "arith.extsi", "arith.extui", "arith.trunci"), lambda x: x
    ),
    **dict.fromkeys(("arith.uitofp", "arith.sitofp"), lambda x: x),
}


def compute(op: Any, operands: list[Any]) -> Array:
    """The result of an elementwise operation; its dtype is that of the result's (element) type."""
    dtype = dtype_of(op.results[0].type)
    with np.errstate(all="ignore"):
        if op.name == "arith.cmpf":
            return FLOAT_COMPARISONS[op.attributes["predicate"].value](*operands)
        if op.name == "arith.cmpi":
            return INTEGER_COMPARISONS[op.attributes["predicate"].value](*operands)
        return np.asarray(FUNCTIONS[op.name](*operands)).astype(dtype)


def dtype_of(type_: Any) -> Any:
    """The numpy type of a scalar type or of a tensor's elements."""
    return DTYPES[str(getattr(type_, "element_type", type_))]
