"""Python scalars as operands, where torch-mlir misinterprets them.

When it folds the comparison of a constant float tensor with an integer, it compares bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.importer.decompositions.functions import NARROW

aten = torch.ops.aten
Number = bool | int | float


def _comparison(compare: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Number], Any]:
    """A floating tensor is compared with the number rounded to the tensor's type."""

    def decomposed(x: Tensor, number: Number) -> Any:
        if x.dtype in NARROW:
            return compare(x, torch.full([], rounded(number, x.dtype), dtype=x.dtype, device=x.device))
        if not x.is_floating_point() or isinstance(number, float):
            return NotImplemented
        return compare(x, float(number))

    return decomposed


def _negative(x: Tensor) -> Any:
    """torch-mlir multiplies by -1.0, even integers, few of which are exact in f32."""
    return NotImplemented if x.is_floating_point() else torch.zeros_like(x) - x


def _by_number(operation: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Tensor | Number], Any]:
    """PyTorch multiplies and divides narrow floats by the unrounded number; torch-mlir would round it to their type."""

    def decomposed(x: Tensor, number: Tensor | Number) -> Any:
        dtype = torch.result_type(x, number)
        if dtype not in NARROW or not (x.dim() and _is_rounded(number, dtype)):
            return NotImplemented
        return operation(x.float(), number).to(dtype)

    return decomposed


def _is_rounded(number: Tensor | Number, dtype: torch.dtype) -> bool:
    """Whether `number` may not be exact in type `dtype`."""
    if isinstance(number, Tensor):
        return number.dim() == 0 and number.dtype in (torch.float32, torch.float64)
    return rounded(number, dtype) != number


def rounded(number: Number, dtype: torch.dtype) -> float:
    """`number` rounded to a floating type. A cast would not do: compilers fold casts of constants."""
    if not math.isfinite(number):
        return float(number)
    fraction, exponent = math.frexp(number)
    unit = torch.finfo(dtype).eps / 2.0
    return math.ldexp(round(fraction / unit) * unit, exponent)


def _by_multiple(operation: Callable[..., Tensor]) -> Callable[..., Any]:
    """For narrow floats, x + alpha · y is rounded once, with alpha rounded before."""

    def decomposed(x: Tensor, y: Tensor | Number, *, alpha: Number = 1) -> Any:
        dtype = torch.result_type(x, y)
        if dtype not in NARROW or alpha == 1 or not isinstance(y, Tensor):
            return NotImplemented
        return operation(x.float(), rounded(alpha, dtype) * y.float()).to(dtype)

    return decomposed


def _by_rounded(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Number], Any]:
    """For narrow floats, the divisor of a remainder is rounded to their type."""

    def decomposed(x: Tensor, number: Number) -> Any:
        dtype = torch.result_type(x, number)
        if dtype not in NARROW:
            return NotImplemented
        return operation(x, torch.full([], rounded(number, dtype), dtype=dtype, device=x.device))

    return decomposed


def _bits(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """The number of a bitwise operation becomes a tensor; booleans with an integer give an integer."""
    return lambda x, number: operation(x, torch.full([], number, dtype=torch.result_type(x, number), device=x.device))


OWN: dict[Any, Callable[..., Any]] = {
    aten.eq.Scalar: _comparison(torch.eq),
    aten.ne.Scalar: _comparison(torch.ne),
    aten.lt.Scalar: _comparison(torch.lt),
    aten.le.Scalar: _comparison(torch.le),
    aten.gt.Scalar: _comparison(torch.gt),
    aten.ge.Scalar: _comparison(torch.ge),
    aten.neg.default: _negative,
    aten.add.Tensor: _by_multiple(torch.add),
    aten.sub.Tensor: _by_multiple(torch.sub),
    aten.mul.Tensor: _by_number(torch.mul),
    aten.mul.Scalar: _by_number(torch.mul),
    aten.div.Tensor: _by_number(torch.div),
    aten.div.Scalar: _by_number(torch.div),
    aten.remainder.Scalar: _by_rounded(torch.remainder),
    aten.bitwise_and.Scalar: _bits(torch.bitwise_and),
    aten.bitwise_or.Scalar: _bits(torch.bitwise_or),
    aten.bitwise_xor.Scalar: _bits(torch.bitwise_xor),
}
