"""Numbers as operands of tensors, where torch-mlir takes them for something else.

Folding the comparison of a constant tensor of floats with an integer, it compares bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
Number = bool | int | float
_NARROW = (torch.bfloat16, torch.float16)


def _comparison(compare: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Number], Any]:
    """The comparison of a floating tensor with a number is one with a floating number, which the type rounds."""

    def decomposed(x: Tensor, number: Number) -> Any:
        if x.dtype in _NARROW:
            return compare(x, torch.full([], float(number), dtype=x.dtype, device=x.device))
        if not x.is_floating_point() or isinstance(number, float):
            return NotImplemented
        return compare(x, float(number))

    return decomposed


def _negative(x: Tensor) -> Any:
    """torch-mlir multiplies by -1.0, also integers, of which f32 holds few."""
    return NotImplemented if x.is_floating_point() else torch.zeros_like(x) - x


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
    aten.bitwise_and.Scalar: _bits(torch.bitwise_and),
    aten.bitwise_or.Scalar: _bits(torch.bitwise_or),
    aten.bitwise_xor.Scalar: _bits(torch.bitwise_xor),
}
