"""Numbers as operands of tensors, where torch-mlir takes them for something else.

Folding the comparison of a constant tensor of floats with an integer, it compares bits.
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
    """The comparison of a floating tensor with a number is one with a floating number, which the type rounds."""

    def decomposed(x: Tensor, number: Number) -> Any:
        if x.dtype in NARROW:
            return compare(x, torch.full([], rounded(number, x.dtype), dtype=x.dtype, device=x.device))
        if not x.is_floating_point() or isinstance(number, float):
            return NotImplemented
        return compare(x, float(number))

    return decomposed


def _negative(x: Tensor) -> Any:
    """torch-mlir multiplies by -1.0, also integers, of which f32 holds few."""
    return NotImplemented if x.is_floating_point() else torch.zeros_like(x) - x


def _by_number(operation: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Tensor | Number], Any]:
    """PyTorch multiplies and divides narrow floats by a number as it is; torch-mlir would round it to their type."""

    def decomposed(x: Tensor, number: Tensor | Number) -> Any:
        dtype = torch.result_type(x, number)
        if dtype not in NARROW or not (x.dim() and _is_rounded(number, dtype)):
            return NotImplemented
        return operation(x.float(), number).to(dtype)

    return decomposed


def _is_rounded(number: Tensor | Number, dtype: torch.dtype) -> bool:
    """Whether `number` may be none of type `dtype`."""
    if isinstance(number, Tensor):
        return number.dim() == 0 and number.dtype in (torch.float32, torch.float64)
    return rounded(number, dtype) != number


def rounded(number: Number, dtype: torch.dtype) -> float:
    """`number` to the digits of a floating type. A cast says less: compilers take one of a constant out."""
    if not math.isfinite(number):
        return float(number)
    fraction, exponent = math.frexp(number)
    unit = torch.finfo(dtype).eps / 2.0
    return math.ldexp(round(fraction / unit) * unit, exponent)


def _by_multiple(operation: Callable[..., Tensor]) -> Callable[..., Any]:
    """Of narrow floats x + alpha · y is rounded once, after alpha itself."""

    def decomposed(x: Tensor, y: Tensor | Number, *, alpha: Number = 1) -> Any:
        dtype = torch.result_type(x, y)
        if dtype not in NARROW or alpha == 1 or not isinstance(y, Tensor):
            return NotImplemented
        return operation(x.float(), rounded(alpha, dtype) * y.float()).to(dtype)

    return decomposed


def _by_rounded(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Number], Any]:
    """A remainder by a number is one by what the type of narrow floats holds of it."""

    def decomposed(x: Tensor, number: Number) -> Any:
        dtype = torch.result_type(x, number)
        if dtype not in NARROW:
            return NotImplemented
        return operation(x, torch.full([], rounded(number, dtype), dtype=dtype, device=x.device))

    return decomposed


def _bits(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """An operation on bits with a number is one with a tensor of it; of booleans and an integer it is an integer."""
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
