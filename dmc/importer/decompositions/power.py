"""Powers whose exponent is a tensor, or whose base may be negative: backends only compute exp(y · log(x)), and in f32,
where rounding the product loses up to seven bits of the power.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.decompositions.functions import NARROW
from dmc.importer.decompositions.scalars import rounded

aten = torch.ops.aten
Number = bool | int | float
# Integer exponents up to here are a few products; of floats each rounds.
_MOST, _MOST_OF_FLOATS = 64, 8
# No number of f32 is e to a power of more, or e to the negative of that, but infinity and zero.
_LARGEST_EXPONENT = 200.0


def _power(x: Tensor, y: Tensor) -> Tensor:
    """x ** y with the special cases of C's `pow`, in f32 for narrower types."""
    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point:
        raise ImportFailure(
            None, "a power of integers by a tensor is not supported", hint="convert the base, as in x.float()"
        )
    return _wide_power(x.to(dtype).float(), y.to(dtype).float()).to(dtype)


def _wide_power(x: Tensor, y: Tensor) -> Tensor:
    size = _power_of_size(x.abs(), y)
    # Of these exponents rounded once, as in eager: the first power is the number itself.
    for exponent, exact in ((1.0, x.abs()), (2.0, x * x), (-1.0, 1.0 / x.abs())):
        size = torch.where(y == exponent, exact, size)
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


def _power_of_size(x: Tensor, y: Tensor) -> Tensor:
    """x ** y for x ≥ 0: exp(a + b) = exp(a) + b · exp(a), where a is the exponent in f32 and b what is left of it."""
    exponent = (y.double() * _log(x)).clamp(-_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    near = exponent.float()
    power = torch.exp(near)
    return torch.where(power == math.inf, power, power + power * (exponent - near.double()).float())


def _log(x: Tensor) -> Tensor:
    """The logarithm of x ≥ 0 (f32) in f64, to twelve digits, in operations that every backend has in f64."""
    # x = m · 2 ** k, with m between √½ and √2.
    is_small = x < 1.0
    m = torch.where(is_small, x.double() * 2.0**160, x.double())
    k = torch.where(is_small, -160.0, 0.0).double()
    for bits in (128, 64, 32, 16, 8, 4, 2, 1):
        m, k = _halved(m, k, bits, m >= 2.0**bits)
    m, k = _halved(m, k, 1, m > math.sqrt(2.0))
    # log(m) = 2 · artanh(s), by its series.
    s = (m - 1.0) / (m + 1.0)
    series = torch.zeros_like(s)
    for n in range(15, 0, -2):
        series = series * (s * s) + 1.0 / n
    finite = k * math.log(2.0) + 2.0 * s * series
    return torch.where(x == 0.0, -math.inf, torch.where(x == math.inf, math.inf, finite))


def _halved(m: Tensor, k: Tensor, times: int, where: Tensor) -> tuple[Tensor, Tensor]:
    """The same m · 2 ** k, with `m` halved so many times."""
    return torch.where(where, m * 2.0**-times, m), torch.where(where, k + times, k)


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
    most = _MOST_OF_FLOATS if dtype.is_floating_point else _MOST
    times = int(y) if abs(y) <= most and y == int(y) else None
    if times is not None and times >= 0:
        # Narrow types round once, after the last product.
        wide = torch.float32 if dtype in NARROW else dtype
        return _product(x.to(wide), times).to(dtype)
    if not dtype.is_floating_point:
        raise ImportFailure(
            None, f"an integer to the power {y} is not supported", hint="convert the base, as in x.float()"
        )
    wide = x.to(torch.promote_types(dtype, torch.float32))
    if abs(y) == 0.5:
        # For negative zero and infinity, sqrt differs from `pow`; PyTorch uses sqrt.
        return (torch.sqrt(wide) if y > 0 else torch.rsqrt(wide)).to(dtype)
    if times is not None:
        return (1.0 / _product(wide, -times)).to(dtype)
    # PyTorch rounds the exponent to the type of the base.
    return _wide_power(wide.float(), torch.full([], rounded(y, dtype), device=x.device)).to(dtype)


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
