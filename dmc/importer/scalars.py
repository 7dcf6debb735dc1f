"""Python numbers as operands of tensors, where torch-mlir takes them for something else.

Folding a constant tensor of floats with an integer, it compares bits; with int8 it reads past the end of a type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure

aten = torch.ops.aten
Number = bool | int | float


def _comparison(compare: Callable[[Tensor, Number], Tensor]) -> Callable[[Tensor, Number], Any]:
    """The comparison of a floating tensor with an integer is one with a floating number."""

    def decomposed(x: Tensor, number: Number) -> Any:
        if not x.is_floating_point() or isinstance(number, float):
            return NotImplemented
        return compare(x, float(number))

    return decomposed


def _arithmetic(operation: Callable[..., Tensor]) -> Callable[..., Any]:
    """Arithmetic of int8 with a number, in 32 bits; what is cut off there is what wraps around here."""

    def decomposed(left: Tensor | Number, right: Tensor | Number, **options: Any) -> Any:
        x, number = (left, right) if isinstance(left, Tensor) else (right, left)
        if not isinstance(x, Tensor) or x.dtype != torch.int8 or isinstance(number, Tensor | float):
            return NotImplemented
        bounds = torch.iinfo(x.dtype)
        if not bounds.min <= number <= bounds.max:
            raise ImportFailure(None, f"{number} is no number of {x.dtype}", hint="convert the tensor, as in x.int()")
        wide = (each.to(torch.int32) if isinstance(each, Tensor) else each for each in (left, right))
        return operation(*wide, **options).to(x.dtype)

    return decomposed


def _bits(operation: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """An operation on bits with a number is one with a tensor of it."""
    return lambda x, number: operation(x, torch.full([], number, dtype=x.dtype, device=x.device))


OWN: dict[Any, Callable[..., Any]] = {
    aten.eq.Scalar: _comparison(torch.eq),
    aten.ne.Scalar: _comparison(torch.ne),
    aten.lt.Scalar: _comparison(torch.lt),
    aten.le.Scalar: _comparison(torch.le),
    aten.gt.Scalar: _comparison(torch.gt),
    aten.ge.Scalar: _comparison(torch.ge),
    **dict.fromkeys((aten.mul.Tensor, aten.mul.Scalar), _arithmetic(torch.mul)),
    **dict.fromkeys((aten.sub.Tensor, aten.sub.Scalar), _arithmetic(torch.sub)),
    aten.remainder.Scalar: _arithmetic(torch.remainder),
    aten.floor_divide.default: _arithmetic(torch.floor_divide),
    **dict.fromkeys((aten.div.Tensor_mode, aten.div.Scalar_mode), _arithmetic(torch.div)),
    aten.bitwise_and.Scalar: _bits(torch.bitwise_and),
    aten.bitwise_or.Scalar: _bits(torch.bitwise_or),
    aten.bitwise_xor.Scalar: _bits(torch.bitwise_xor),
}
