"""Decompositions of operations that torch-mlir lowers correctly for finite numbers only, or for small integers only.

With an ordered comparison NaN is neither less nor greater, so `where(x < low, low, x)` keeps it. In maxima and bounds
torch-mlir selects the other way round, and it folds x == x to true. The sign of a zero, too, is PyTorch's here.
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


def is_finite(x: Tensor) -> Tensor:
    """Whether each element is neither infinite nor NaN: infinity minus itself is NaN, and so is NaN."""
    return ~is_nan(x - x)


def is_nan(x: Tensor) -> Tensor:
    """Whether each element is NaN, the only value unequal to itself."""
    return x != x


def _isfinite(x: Tensor) -> Tensor:
    return is_finite(x) if x.is_floating_point() else torch.ones_like(x, dtype=torch.bool)


def _isnan(x: Tensor) -> Tensor:
    return is_nan(x) if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


def _equal(a: Tensor, b: Tensor) -> Any:
    """torch-mlir folds `x == x` to true, but not `x != x` to false."""
    if not (a.is_floating_point() or b.is_floating_point()):
        return NotImplemented
    return ~(a != b)


def _chooser(takes: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Any]:
    """The decomposition that selects the left operand where `takes` holds, else the right one."""

    def choose(a: Tensor, b: Tensor) -> Any:
        dtype = torch.result_type(a, b)
        if not dtype.is_floating_point:
            return NotImplemented
        a, b = a.to(dtype), b.to(dtype)
        return torch.where(takes(a, b), a, b)

    return choose


def _clamp(x: Tensor, low: Number | None = None, high: Number | None = None) -> Any:
    if not x.is_floating_point():
        if not (isinstance(low, float) or isinstance(high, float)):
            return NotImplemented
        x = x.to(torch.get_default_dtype())
    if any(bound is not None and math.isnan(bound) for bound in (low, high)):
        return torch.full_like(x, math.nan)
    if low is not None:
        x = torch.where(x < low, low, x).to(x.dtype)
    return x if high is None else torch.where(x > high, high, x).to(x.dtype)


def _relu(x: Tensor) -> Any:
    return _clamp(x, 0) if x.is_floating_point() else NotImplemented


def _clamp_max(x: Tensor, high: Number) -> Any:
    return _clamp(x, None, high)


def _clamp_tensors(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Any:
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


def _hardtanh(x: Tensor, low: Number = -1.0, high: Number = 1.0) -> Any:
    return _clamp(x, low, high)


def _hardtanh_backward(dy: Tensor, x: Tensor, low: Number, high: Number) -> Tensor:
    # The bounds are compared in f32, as in eager: bfloat16 would round them.
    wide = x.float()
    return torch.where((wide > low) & (wide < high), dy, 0.0).to(dy.dtype)


def _hardsigmoid(x: Tensor) -> Tensor:
    return (_clamp(x.float() + 3.0, 0.0, 6.0) / 6.0).to(x.dtype)


def _hardswish_backward(dy: Tensor, x: Tensor) -> Tensor:
    wide = x.float()
    inner = torch.where(wide >= 3.0, dy.float(), dy.float() * (wide / 3.0 + 0.5))
    return torch.where(wide <= -3.0, 0.0, inner).to(dy.dtype)


def _elu_backward(dy: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor) -> Tensor:
    """`x` is the operand, or with `is_result` the result."""
    wide, slope = x.float(), dy.float()
    below = wide + alpha * scale if is_result else alpha * scale * torch.exp(wide * input_scale)
    return torch.where(wide > 0.0, slope * scale, slope * input_scale * below).to(dy.dtype)


def _shrink_backward(dy: Tensor, x: Tensor, width: float) -> Tensor:
    wide = x.float()
    return torch.where((wide >= -width) & (wide <= width), 0.0, dy).to(dy.dtype)


def _smooth_l1_backward(dy: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    slope = dy / x.numel() if reduction == 1 else dy
    error = x - target
    outside = (error >= beta) | (error <= -beta)
    return torch.where(outside, slope * torch.sign(error), slope * error / beta)


def _sign(x: Tensor) -> Tensor:
    """The sign of NaN is zero, as in eager; the sign of a boolean is itself."""
    if x.dtype == torch.bool:
        return x
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def _fmod(x: Tensor, y: Tensor | Number) -> Any:
    """Of floats the remainder of magnitudes, which torch-mlir lowers well, with the sign of `x`."""
    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point:
        y = _divisor(y)
        return x - torch.div(x, y, rounding_mode="trunc") * y
    x = x.to(dtype)
    rest = torch.remainder(x.abs(), y.to(dtype).abs() if isinstance(y, Tensor) else abs(y))
    # Zero minus zero has the sign of the first.
    return torch.where(x < 0.0, -rest, torch.where(x == 0.0, x - rest, rest))


def _trunc(x: Tensor) -> Any:
    return torch.where(x < 0.0, torch.ceil(x), torch.floor(x)) if x.is_floating_point() else NotImplemented


def _atan2(y: Tensor, x: Tensor) -> Tensor:
    """From the angle in the first quadrant; the sign of a zero counts, too.

    IREE's own CPU code returns NaN for two infinities.
    """
    dtype = torch.result_type(y, x)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    y, x = (each.to(dtype).to(torch.float32 if dtype in NARROW else dtype) for each in (y, x))
    slope = torch.where(y.abs() == x.abs(), torch.where(y == 0, 0.0, 1.0).to(y.dtype), y.abs() / x.abs())
    angle = torch.atan(slope)
    angle = torch.where(_is_negative(x), math.pi - angle, angle)
    return torch.where(_is_negative(y), -angle, angle).to(dtype)


def _is_negative(x: Tensor) -> Tensor:
    return (x < 0) | (1 / x < 0)


def _angle(x: Tensor) -> Any:
    """Of real numbers."""
    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    return torch.where(x != x, x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


def _copysign(x: Tensor, y: Tensor | Number) -> Tensor:
    """The sign of NaN is taken for positive."""
    size = x.abs() if x.is_floating_point() else x.abs().to(torch.get_default_dtype())
    if not isinstance(y, Tensor):
        return -size if math.copysign(1.0, y) < 0.0 else size
    dtype = torch.result_type(x, y)
    size = size.to(dtype if dtype.is_floating_point else torch.get_default_dtype())
    return torch.where(_is_negative(y), -size, size)


def _divide(x: Tensor | Number, y: Tensor | Number, *, rounding_mode: str | None = None) -> Any:
    """Floor division via the remainder, as in Python: infinity divided this way is NaN. Of integers it is exact."""
    dtype = torch.result_type(x, y)
    if dtype in NARROW and rounding_mode is not None:
        wide = (each.float() if isinstance(each, Tensor) else each for each in (x, y))
        return torch.div(*wide, rounding_mode=rounding_mode).to(dtype)
    if rounding_mode != "floor":
        return NotImplemented
    # In `1 // y` the left operand is not a tensor.
    x = x.to(dtype) if isinstance(x, Tensor) else torch.full([], x, dtype=dtype)
    y = y.to(dtype) if isinstance(y, Tensor) else y
    rest = torch.fmod(x, y)
    below = (rest != 0) & ((rest < 0) != (_as_tensor(y, x) < 0))
    if not dtype.is_floating_point:
        # torch-mlir divides integers as numbers of 64 bits, which are exact up to 2⁵³ only.
        return torch.div(x, _divisor(y), rounding_mode="trunc") - below.to(dtype)
    # An integer up to rounding.
    quotient = torch.round((x - rest) / y) - below.to(x.dtype)
    # A quotient of zero has the sign of the fraction.
    signed = torch.where(quotient == 0.0, 0.0 * (x / y), quotient)
    return torch.where(_as_tensor(y, x) == 0.0, x / y, signed)


def _divisor(y: Tensor | Number) -> Tensor | Number:
    """What integers may be divided by: compilers take it that none is zero, also where nothing reads the result."""
    return torch.where(y == 0, 1, y) if isinstance(y, Tensor) else y


def _as_tensor(value: Tensor | Number, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full_like(like, value)


OWN: dict[Any, Callable[..., Any]] = {
    aten.isfinite.default: _isfinite,
    aten.isnan.default: _isnan,
    aten.eq.Tensor: _equal,
    aten.maximum.default: _chooser(lambda a, b: (a >= b) | is_nan(a)),
    aten.minimum.default: _chooser(lambda a, b: (a <= b) | is_nan(a)),
    # Given a number and NaN, these return the number.
    aten.fmax.default: _chooser(lambda a, b: (a >= b) | is_nan(b)),
    aten.fmin.default: _chooser(lambda a, b: (a <= b) | is_nan(b)),
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp_tensors,
    aten.clamp_min.default: _clamp,
    aten.clamp_min.Tensor: torch.maximum,
    aten.clamp_max.default: _clamp_max,
    aten.clamp_max.Tensor: torch.minimum,
    aten.relu.default: _relu,
    aten.hardtanh.default: _hardtanh,
    aten.hardtanh_backward.default: _hardtanh_backward,
    aten.hardsigmoid.default: _hardsigmoid,
    aten.hardswish_backward.default: _hardswish_backward,
    aten.elu_backward.default: _elu_backward,
    aten.hardshrink_backward.default: _shrink_backward,
    aten.softshrink_backward.default: _shrink_backward,
    aten.smooth_l1_loss_backward.default: _smooth_l1_backward,
    aten.sign.default: _sign,
    aten.sgn.default: _sign,
    aten.fmod.Tensor: _fmod,
    aten.fmod.Scalar: _fmod,
    aten.angle.default: _angle,
    aten.trunc.default: _trunc,
    aten.atan2.default: _atan2,
    aten.copysign.Scalar: _copysign,
    aten.copysign.Tensor: _copysign,
    aten.div.Tensor_mode: _divide,
    aten.div.Scalar_mode: _divide,
}
