"""Powers whose exponent is a tensor, or whose base may be negative: backends only compute exp(y · log(x))."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.decompositions.functions import NARROW
from dmc.importer.decompositions.scalars import rounded

aten = torch.ops.aten
Number = bool | int | float
# Integer exponents up to here are a few products.
_MOST = 64


def _power(x: Tensor, y: Tensor) -> Tensor:
    """x ** y with the special cases of C's `pow`, in f32 for narrower types."""
    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point:
        raise ImportFailure(
            None, "a power of integers by a tensor is not supported", hint="convert the base, as in x.float()"
        )
    return _wide_power(x.to(dtype).float(), y.to(dtype).float()).to(dtype)


def _wide_power(x: Tensor, y: Tensor) -> Tensor:
    size = torch.exp(y * torch.log(x.abs()))
    # Where x is one or y is zero, the other operand does not matter, even if NaN; and infinity times log(1) would be
    # NaN.
    size = torch.where((y == 0.0) | (x == 1.0) | ((x == -1.0) & (y.abs() == torch.inf)), 1.0, size)
    whole = torch.floor(y) == y
    odd = whole & (torch.floor(y * 0.5) * 2.0 != y)
    # Negative zero to an odd power is negative, too.
    negative = torch.where(x == 0.0, 1.0 / x, x) < 0.0
    signed = torch.where(negative & odd, -size, size)
    undefined = negative & ~whole & (x != 0.0) & (x != -torch.inf)
    return torch.where(undefined, torch.nan, signed)


def _power_of_scalar(x: Number, y: Tensor) -> Tensor:
    if not (y.is_floating_point() or isinstance(x, float)):
        raise ImportFailure(
            None, "a power of integers by a tensor is not supported", hint="convert it, as in y.float()"
        )
    dtype = y.dtype if y.is_floating_point() else torch.get_default_dtype()
    return _power(torch.full([], float(x), dtype=dtype, device=y.device), y).to(dtype)


def _power_by_scalar(x: Tensor, y: Number) -> Any:
    """Integer exponents by products; square roots by `sqrt`."""
    dtype = torch.result_type(x, y)
    times = int(y) if abs(y) <= _MOST and y == int(y) else None
    if times is not None and times >= 0:
        # Narrow types round once, after the last product.
        wide = torch.float32 if dtype in NARROW else dtype
        return _product(x.to(wide), times).to(dtype)
    if not dtype.is_floating_point:
        raise ImportFailure(
            None, f"an integer to the power {y} is not supported", hint="convert the base, as in x.float()"
        )
    wide = x.float()
    if abs(y) == 0.5:
        # For negative zero and infinity, sqrt differs from `pow`; PyTorch uses sqrt.
        return (torch.sqrt(wide) if y > 0 else torch.rsqrt(wide)).to(dtype)
    if times is not None:
        return (1.0 / _product(wide, -times)).to(dtype)
    # PyTorch rounds the exponent to the type of the base.
    return _wide_power(wide, torch.full([], rounded(y, dtype), device=x.device)).to(dtype)


def _product(x: Tensor, times: int) -> Tensor:
    """x · x · … by squaring."""
    result = None
    square = x
    while times:
        if times & 1:
            result = square if result is None else result * square
        square, times = square * square, times >> 1
    return torch.ones_like(x) if result is None else result


OWN: dict[Any, Callable[..., Any]] = {
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power_of_scalar,
    aten.pow.Tensor_Scalar: _power_by_scalar,
}
