"""Real functions that stay accurate near zero, for large operands and in narrow types. Backends expand most of them by
the textbook formula, in the type of the operand:

`asinh(x)` as log(x + √(x² + 1)), which loses all digits for large negative numbers and overflows for large ones.
PyTorch computes functions of narrow types in f32 and rounds once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
Function = Callable[..., Any]
NARROW = (torch.bfloat16, torch.float16)
# From here on √(x² + 1) is x up to rounding.
_LARGE = 1e4


def widened(function: Function) -> Function:
    """`function` on narrow types, computed in f32; with two operands, in their common type."""

    def through_f32(x: Tensor, *others: Any, **options: Any) -> Any:
        tensors = [each for each in others if isinstance(each, Tensor)]
        dtype = torch.result_type(x, tensors[0]) if tensors else x.dtype
        if not dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        wide = torch.float32 if dtype in NARROW else dtype
        operands = [each.to(dtype).to(wide) if isinstance(each, Tensor) else each for each in (x, *others)]
        result = function(*operands, **options)
        return result if result is NotImplemented else result.to(dtype)

    return through_f32


def _in_f32(operation: Any) -> Function:
    """The decomposition of an operation that is right in f32; narrow operands are computed in f32."""
    wide = widened(operation)
    return lambda x, *options: wide(x, *options) if x.dtype in NARROW else NotImplemented


def _sinh(x: Tensor) -> Tensor:
    size = x.abs()
    less = torch.expm1(size)
    # The root, since the power would overflow before its half does.
    root = torch.exp(0.5 * size)
    large = 0.5 * root * root - 0.5 / root / root
    return _with_sign(x, torch.where(size < 1.0, 0.5 * (less + less / (less + 1.0)), large))


def _cosh(x: Tensor) -> Tensor:
    root = torch.exp(0.5 * x.abs())
    return 0.5 * root * root + 0.5 / root / root


def _asinh(x: Tensor) -> Tensor:
    size = x.abs()
    square = size * size
    near = torch.log1p(size + square / (1.0 + torch.sqrt(square + 1.0)))
    return _with_sign(x, torch.where(size > _LARGE, torch.log(size) + math.log(2.0), near))


def _acosh(x: Tensor) -> Tensor:
    above = x - 1.0
    near = torch.log1p(above + torch.sqrt(above * (above + 2.0)))
    result = torch.where(x > _LARGE, torch.log(x) + math.log(2.0), near)
    return torch.where(x < 1.0, math.nan, result)


def _atanh(x: Tensor) -> Tensor:
    size = x.abs()
    return _with_sign(x, 0.5 * torch.log1p(2.0 * size / (1.0 - size)))


def _elu(x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    return torch.where(x > 0.0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


def _logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """Two equal infinities have distance zero."""
    largest = torch.maximum(a, b)
    return torch.where(a == b, largest + math.log(2.0), largest + torch.log1p(torch.exp(-torch.abs(a - b))))


def _logaddexp2(a: Tensor, b: Tensor) -> Tensor:
    largest = torch.maximum(a, b)
    more = torch.log1p(torch.exp2(-torch.abs(a - b))) * (1.0 / math.log(2.0))
    return torch.where(a == b, largest + 1.0, largest + more)


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    """The larger is taken out, so that no square overflows; infinity beside NaN is infinite."""
    larger, smaller = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = torch.where(larger == 0.0, 0.0, smaller / larger)
    infinite = (x.abs() == math.inf) | (y.abs() == math.inf)
    return torch.where(infinite, math.inf, larger * torch.sqrt(1.0 + ratio * ratio))


def _log10(x: Tensor) -> Tensor:
    """IREE lacks this function on the CPU."""
    return x.log() * (1.0 / math.log(10.0))


def _softshrink(x: Tensor, width: float = 0.5) -> Tensor:
    """NaN stays NaN. The sign of zero is that of eager's vectors; in the rest of a tensor eager keeps that of x."""
    return torch.where(x > width, x - width, torch.where(x < -width, x + width, torch.where(x.isnan(), x, 0.0)))


def _frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """The fraction, in [0.5, 1), and the exponent: exact, by powers of two."""
    if x.dtype in NARROW:
        fraction, exponent = _frexp(x.float())
        return fraction.to(x.dtype), exponent
    exponent = torch.zeros_like(x, dtype=torch.int32)
    for power in (64, 64, 32, 16, 8, 4, 2, 1):
        size = x.abs()
        large, small = (size >= 2.0 ** (power - 1)) & (size != math.inf), (size < 2.0**-power) & (size != 0.0)
        x = torch.where(large, x * 2.0**-power, torch.where(small, x * 2.0**power, x))
        exponent = exponent + torch.where(large, power, torch.where(small, -power, 0)).to(torch.int32)
    return x, exponent


def _with_sign(x: Tensor, size: Tensor) -> Tensor:
    """`size` with the sign of `x`, including that of zero."""
    return torch.where(x > 0.0, size, torch.where(x < 0.0, -size, x))


_KNOWN = (
    aten.acos, aten.asin, aten.atan, aten.erf, aten.exp, aten.exp2, aten.expm1, aten.log, aten.log1p, aten.log2,
    aten.leaky_relu, aten.rsqrt, aten.sigmoid, aten.sqrt, aten.tanh,
)  # fmt: skip
_WRITTEN: dict[Any, Function] = {
    aten.sinh: _sinh,
    aten.cosh: _cosh,
    aten.asinh: _asinh,
    aten.acosh: _acosh,
    aten.atanh: _atanh,
    aten.elu: _elu,
    aten.softshrink: _softshrink,
    aten.logaddexp: _logaddexp,
    aten.logaddexp2: _logaddexp2,
    aten.log10: _log10,
    aten.hypot: _hypot,
}
OWN: dict[Any, Function] = {
    **{function.default: _in_f32(function.default) for function in _KNOWN},
    **{function.default: widened(written) for function, written in _WRITTEN.items()},
    aten.frexp.Tensor: _frexp,
}
