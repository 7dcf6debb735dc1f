"""GELU (Hendrycks and Gimpel, 2016), exact ("none") or by the tanh approximation ("tanh")."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable

_TANH_CUBIC = 0.044715
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


@composite("gelu(Tensor x, str approximate) -> Tensor")
def gelu(x: Tensor, approximate: str) -> Tensor:
    """x · Φ(x), elementwise, computed in f32 for narrower types; shape and dtype of `x`."""
    wide = x.float()
    if approximate == "tanh":
        cdf = 0.5 * (1.0 + torch.tanh(_tanh_argument(wide)))
    else:
        cdf = 0.5 * (1.0 + torch.erf(wide * math.sqrt(0.5)))
    return (wide * cdf).to(x.dtype)


@composite("gelu_backward(Tensor dy, Tensor x, str approximate) -> Tensor")
def gelu_backward(dy: Tensor, x: Tensor, approximate: str) -> Tensor:
    """The gradient of `gelu` with respect to `x`, from the input alone: only `x` is saved."""
    wide = x.float()
    if approximate == "tanh":
        t = torch.tanh(_tanh_argument(wide))
        slope = _SQRT_2_OVER_PI * (1.0 + 3.0 * _TANH_CUBIC * wide * wide)
        derivative = 0.5 * (1.0 + t) + 0.5 * wide * (1.0 - t * t) * slope
    else:
        cdf = 0.5 * (1.0 + torch.erf(wide * math.sqrt(0.5)))
        density = torch.exp(-0.5 * wide * wide) * (1.0 / math.sqrt(2.0 * math.pi))
        derivative = cdf + wide * density
    return (dy.float() * derivative).to(x.dtype)


def _tanh_argument(x: Tensor) -> Tensor:
    return _SQRT_2_OVER_PI * (x + _TANH_CUBIC * x * x * x)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.approximate = inputs
    ctx.save_for_backward(x)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
    (x,) = ctx.saved_tensors
    return torch.ops.dmc.gelu_backward(dy, x, ctx.approximate), None


differentiable("gelu", _setup, _backward)
