"""Special functions of f32 by polynomials, which meet PyTorch's own functions of float64 at Chebyshev's points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from dmc.importer.decompositions.functions import widened

aten = torch.ops.aten
# Bessel functions change from one series to another here, as in PyTorch.
_FAR = 8.0
# From here to infinity the scaled error function is one polynomial of (x - it) / (x + it) (Shepherd and Laframboise,
# 1981).
_ERROR_SCALE = 3.75
# What the error function lacks of one is zero in f32 from here on.
_VANISHES = 12.0
# Up to here the logarithm of the gamma function is (x - 1) (x - 2) times a polynomial, so that its zeros are exact.
LGAMMA_NEAR_END = 3.0
# Beyond it the normal distribution's tails begin; no positive number of f32 lies farther out than the second.
_TAIL, _END = math.exp(-2.0), 15.0


def _points(function: Callable[[Tensor], Tensor], degree: int) -> list[float]:
    """The coefficients of `function` on [-1, 1] by Chebyshev's polynomials, from points between -1 and 1."""

    def values(points: Any) -> Any:
        return function(torch.from_numpy(np.asarray(points, np.float64))).numpy()

    return [float(each) for each in chebyshev.chebinterpolate(values, degree)]


def _series(y: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Clenshaw's sum at `y` in [-1, 1]."""
    last, before = torch.zeros_like(y), torch.zeros_like(y)
    for each in reversed(coefficients[1:]):
        last, before = 2.0 * y * last - before + each, last
    return y * last - before + coefficients[0]


def _i0e_near(y: Tensor) -> Tensor:
    return torch.special.i0e(_FAR / 2.0 * (y + 1.0))


def _i1e_near(y: Tensor) -> Tensor:
    x = _FAR / 2.0 * (y + 1.0)
    return torch.special.i1e(x) / x


def _far(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`function(x) √x` over y = 2 · FAR / x - 1; at infinity both tend to 1 / √(2 π)."""

    def of(y: Tensor) -> Tensor:
        x = 2.0 * _FAR / (y + 1.0)
        return function(x) * x.sqrt()

    return of


def _erfcx_scaled(y: Tensor) -> Tensor:
    x = _ERROR_SCALE * (1.0 + y) / (1.0 - y)
    return (1.0 + 2.0 * x) * torch.special.erfcx(x)


def _ndtri_near(y: Tensor) -> Tensor:
    """Over the distance from one half, squared; an odd function without its factor."""
    away = ((0.5 - _TAIL) ** 2 * (y + 1.0) / 2.0).sqrt()
    return torch.special.ndtri(0.5 + away) / away


def _ndtri_far(y: Tensor) -> Tensor:
    """Over 1 / √(-2 log p), from that of the tail's beginning to its end."""
    root = 1.0 / _between(y, 1.0 / _END, 0.5)
    return torch.special.ndtri(torch.exp(-0.5 * root * root)) / root


def _lgamma_near(y: Tensor) -> Tensor:
    x = _between(y, 0.5, LGAMMA_NEAR_END)
    return torch.lgamma(x) / ((x - 1.0) * (x - 2.0))


def _between(y: Tensor, first: float, last: float) -> Tensor:
    return first + (last - first) * (y + 1.0) / 2.0


_I0E_NEAR, _I0E_FAR = _points(_i0e_near, 20), _points(_far(torch.special.i0e), 10)
_I1E_NEAR, _I1E_FAR = _points(_i1e_near, 20), _points(_far(torch.special.i1e), 10)
_ERFCX = _points(_erfcx_scaled, 22)
_NDTRI_NEAR, _NDTRI_FAR = _points(_ndtri_near, 14), _points(_ndtri_far, 18)
_LGAMMA_NEAR = _points(_lgamma_near, 19)


def _bessel(size: Tensor, near: Sequence[float], far: Sequence[float]) -> tuple[Tensor, Tensor]:
    """The scaled function of |x| by both series."""
    large = size.clamp(min=_FAR)
    return _series(size.clamp(max=_FAR) * (2.0 / _FAR) - 1.0, near), _series(
        2.0 * _FAR / large - 1.0, far
    ) * large.rsqrt()


def _i0e(x: Tensor) -> Tensor:
    size = x.abs()
    near, far = _bessel(size, _I0E_NEAR, _I0E_FAR)
    return torch.where(size <= _FAR, near, far)


def _i1e(x: Tensor) -> Tensor:
    size = x.abs()
    near, far = _bessel(size, _I1E_NEAR, _I1E_FAR)
    return torch.where(size <= _FAR, near * x, torch.where(x < 0.0, -far, far))


def _erfcx(x: Tensor) -> Tensor:
    above = _erfcx_above(x.abs())
    return torch.where(x < 0.0, 2.0 * torch.exp(x * x) - above, above)


def _erfcx_above(size: Tensor) -> Tensor:
    y = torch.where(size == math.inf, 1.0, (size - _ERROR_SCALE) / (size + _ERROR_SCALE))
    # Twice the largest number would be infinite.
    return 0.5 * _series(y, _ERFCX) / (0.5 + size)


def _erfc(x: Tensor) -> Tensor:
    size = x.abs().clamp(max=_VANISHES)
    # The square of a number with few digits is exact.
    short = (size * 16.0).round() / 16.0
    tail = torch.exp(-short * short) * torch.exp((short - size) * (short + size)) * _erfcx_above(size)
    return torch.where(x < 0.0, 2.0 - tail, tail)


def lgamma_near(x: Tensor) -> Tensor:
    """The logarithm of the gamma function from one half to `LGAMMA_NEAR_END`."""
    y = (x - 0.5) * (2.0 / (LGAMMA_NEAR_END - 0.5)) - 1.0
    return (x - 1.0) * (x - 2.0) * _series(y, _LGAMMA_NEAR)


def _ndtri(p: Tensor) -> Tensor:
    """The quantile of the normal distribution; in both tails by the smaller of p and 1 - p."""
    away, tail = p - 0.5, torch.minimum(p, 1.0 - p)
    near = away * _series(away * away * (2.0 / (0.5 - _TAIL) ** 2) - 1.0, _NDTRI_NEAR)
    root = (-2.0 * tail.log()).sqrt()
    y = ((1.0 / root) - 1.0 / _END) * (2.0 / (0.5 - 1.0 / _END)) - 1.0
    far = root * _series(y, _NDTRI_FAR)
    # The logarithm makes NaN of what is beyond zero and one.
    return torch.where(tail >= _TAIL, near, torch.where(p > 0.5, -far, far))


OWN: dict[Any, Callable[..., Any]] = {
    aten.i0.default: widened(lambda x: torch.exp(x.abs()) * _i0e(x)),
    aten.special_i0e.default: widened(_i0e),
    aten.special_i1.default: widened(lambda x: torch.exp(x.abs()) * _i1e(x)),
    aten.special_i1e.default: widened(_i1e),
    aten.erfc.default: widened(_erfc),
    aten.special_erfcx.default: widened(_erfcx),
    aten.special_ndtri.default: widened(_ndtri),
}
