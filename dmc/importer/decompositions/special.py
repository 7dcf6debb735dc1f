"""Special functions, of f32: by recurrence to large operands, and asymptotic series there. Rounding to a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dmc.importer.decompositions.approximated import LGAMMA_NEAR_END, lgamma_near
from dmc.importer.decompositions.functions import widened
from dmc.importer.decompositions.scalars import rounded

aten = torch.ops.aten
# From here on the series are exact in f32; so many terms lead there from zero.
_SHIFT = 8
# The sine of less is the number itself.
_SMALL = 2.0**-20
# The Bernoulli numbers of even index, from the second on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
# By which the inverse of the error function is approached: near zero, and near one (Giles, 2012, as in PyTorch).
_NEAR_TOP, _NEAR_BOTTOM = (
    (0.886226899, -1.645349621, 0.914624893, -0.140543331),
    (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801),
)
_FAR_TOP, _FAR_BOTTOM = (-1.970840454, -1.624906493, 3.429567803, 1.641345311), (1.0, 3.543889200, 1.637067800)
_NEAR = 0.7


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for each in reversed(coefficients[:-1]):
        total = total * x + each
    return total


def _lgamma(x: Tensor) -> Tensor:
    """Of a negative number by that of its reflection; infinite at zero and the negative integers."""
    below = x < 0.5
    z = torch.where(below, 1.0 - x, x)
    value = torch.where(z < _SHIFT, _lgamma_by_recurrence(z), _lgamma_of_large(z))
    # Of a small number, π times it would have few digits.
    size = torch.where(x.abs() < _SMALL, x.abs(), _sin_of_pi(x).abs() / math.pi)
    turned = torch.where(size == 0.0, math.inf, -size.log() - value)
    return torch.where(below, torch.where(x == -math.inf, math.inf, turned), value)


def _lgamma_by_recurrence(z: Tensor) -> Tensor:
    """Up to `_SHIFT`: all terms have one sign, so that nothing cancels."""
    product = torch.ones_like(z)
    for _ in range(_SHIFT - int(LGAMMA_NEAR_END)):
        large, less = z >= LGAMMA_NEAR_END, z - 1.0
        product, z = torch.where(large, product * less, product), torch.where(large, less, z)
    return product.log() + lgamma_near(z)


def _lgamma_of_large(z: Tensor) -> Tensor:
    """Stirling's series. Its first product overflows only where the result does."""
    square = 1.0 / (z * z)
    series = _polynomial(square, [each / (2 * i * (2 * i - 1)) for i, each in enumerate(_BERNOULLI[:4], 1)]) / z
    value = (z - 0.5) * (z.log() - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    return torch.where(z == math.inf, math.inf, value)


def _sin_of_pi(x: Tensor) -> Tensor:
    # Whole numbers give zero, so that poles are infinite. Exact, as the half of x is, however large.
    rest = x - 2.0 * torch.round(0.5 * x)
    near = torch.where(rest > 0.5, 1.0 - rest, torch.where(rest < -0.5, -1.0 - rest, rest))
    return torch.sin(math.pi * near)


def _digamma(x: Tensor) -> Tensor:
    below = x < 0.0
    z = torch.where(below, 1.0 - x, x)
    less, large = torch.zeros_like(z), z
    for _ in range(_SHIFT):
        small = large < _SHIFT
        less, large = torch.where(small, less + 1.0 / large, less), torch.where(small, large + 1.0, large)
    square = 1.0 / (large * large)
    series = square * _polynomial(square, [each / (2 * i) for i, each in enumerate(_BERNOULLI[:4], 1)])
    value = large.log() - 0.5 / large - series - less
    # The cotangent of a whole number is none.
    rest = x - torch.round(x)
    turned = torch.where(rest == 0.0, math.nan, value - math.pi / torch.tan(math.pi * rest))
    return torch.where(below, turned, value)


def _polygamma(n: int, x: Tensor) -> Any:
    if n == 0:
        return torch.digamma(x)
    if n == 1:
        return _trigamma(x)
    return (-1.0) ** (n + 1) * math.factorial(n) * _zeta(n + 1, x)


def _trigamma(x: Tensor) -> Tensor:
    """Below 0.5 by its reflection, with what rounding leaves of the sine at a pole, as in PyTorch."""
    below = x < 0.5
    large = torch.where(below, 1.0 - x, x)
    value = torch.zeros_like(x)
    for _ in range(_SHIFT):
        value, large = value + 1.0 / (large * large), large + 1.0
    square = 1.0 / (large * large)
    value = value + (1.0 + 0.5 / large + square * _polynomial(square, _BERNOULLI[:4])) / large
    sine = torch.sin(math.pi * x)
    return torch.where(below, math.pi**2 / (sine * sine) - value, value)


def _zeta(s: int, x: Tensor) -> Tensor:
    """Σ 1 / (x + i)ˢ over all i ≥ 0 (Hurwitz), infinite at zero and the negative integers.

    Below -1 from positive numbers alone: with the fraction r of x, the terms of r, and the finitely many before them,
    which are those of 1 - r without those of 1 - x, each with the sign of (-1)ˢ.
    """
    below = x < -1.0
    # Exact, as 1 - r is: there x has no digits beyond those of r.
    rest = torch.where(below, x - torch.floor(x), x)
    other = torch.where(below, 1.0 - rest, 1.0)
    # At half a number the first two cancel, and leave the third.
    beyond = torch.where(below, _zeta_by_series(s, torch.where(below, 1.0 - x, 1.0)), 0.0)
    first = torch.where(below, _zeta_by_series(s, other), 0.0)
    total = _zeta_by_series(s, rest) + (-1.0) ** s * first - (-1.0) ** s * beyond
    return torch.where((x <= 0.0) & (torch.floor(x) == x), math.inf, total)


def _zeta_by_series(s: int, x: Tensor) -> Tensor:
    """For x from -1 on: the first terms, and the rest by Euler and Maclaurin; NaN at infinity, as in PyTorch."""
    total = torch.zeros_like(x)
    for i in range(_SHIFT + 1):
        total = total + (x + i) ** -s
    a = x + (_SHIFT + 1)
    # Of large numbers the higher power vanishes before the sum does.
    total = total + a ** (1 - s) / (s - 1) + 0.5 * a**-s
    factor = float(s)
    for i, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * i) * factor * a ** (1 - s - 2 * i)
        factor *= (s + 2 * i - 1) * (s + 2 * i)
    return torch.where(x == math.inf, math.nan, total)


def _erfinv(y: Tensor) -> Tensor:
    square, size = y * y, y.abs()
    near = y * _polynomial(square, _NEAR_TOP) / _polynomial(square, _NEAR_BOTTOM)
    root = torch.sqrt(-torch.log((1.0 - size) / 2.0))
    far = y.sign() * _polynomial(root, _FAR_TOP) / _polynomial(root, _FAR_BOTTOM)
    x = torch.where(size <= _NEAR, near, far)
    for _ in range(2):
        x = x - (torch.erf(x) - y) / (2.0 / math.sqrt(math.pi) * torch.exp(-x * x))
    # The logarithm makes NaN of what is beyond one.
    return torch.where(size == 1.0, y * math.inf, x)


def _quantized(x: Tensor, scale: Tensor, zero: Any, least: int, most: int) -> tuple[Tensor, Tensor]:
    """`x` on a grid of steps of `scale`, and where that is within the grid: where its gradient passes."""
    # PyTorch converts to integers of 64 bits, among which NaN is the smallest.
    place = torch.round(x * (1.0 / scale)) + zero
    inside = (place >= least) & (place <= most)
    place = torch.where(place.isnan(), float(least), place.clamp(least, most))
    return (place - zero) * scale, inside


def _fake_quantize(x: Tensor, scale: float, zero: int, least: int, most: int) -> Any:
    return _quantized(x, torch.full([], rounded(scale, torch.float32), device=x.device), zero, least, most)


def _fake_quantize_by_tensors(x: Tensor, scale: Tensor, zero: Tensor, on: Tensor, least: int, most: int) -> Any:
    result, inside = _quantized(x, scale.reshape([]), zero.reshape([]).to(x.dtype), least, most)
    return torch.where(on.reshape([]) != 0, result, x), inside | (on.reshape([]) == 0)


def _fake_quantize_by_channel(x: Tensor, scale: Tensor, zero: Tensor, axis: int, least: int, most: int) -> Any:
    if zero.is_floating_point():
        return NotImplemented
    along = [-1 if dim == axis else 1 for dim in range(x.dim())]
    return _quantized(x, scale.view(along), zero.to(x.dtype).view(along), least, most)


OWN: dict[Any, Callable[..., Any]] = {
    aten.lgamma.default: widened(_lgamma),
    aten.digamma.default: widened(_digamma),
    aten.polygamma.default: lambda n, x: widened(lambda each: _polygamma(n, each))(x),
    aten.erfinv.default: widened(_erfinv),
    aten.fake_quantize_per_tensor_affine_cachemask.default: _fake_quantize,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _fake_quantize_by_tensors,
    aten.fake_quantize_per_channel_affine_cachemask.default: _fake_quantize_by_channel,
}
