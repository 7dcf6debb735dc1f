"""GELU (Hendrycks and Gimpel, 2016), exact ("none") or by the tanh approximation ("tanh")."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable

_TANH_LINEAR = math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715 * _TANH_LINEAR


@composite("gelu(Tensor x, str approximate) -> Tensor")
def gelu(x: Tensor, approximate: str) -> Tensor:
    """x · Φ(x), elementwise, computed in f32 for narrower types; shape and dtype of `x`."""
    wide = x.float()
    return (wide * _share(wide, wide * wide, approximate)).to(x.dtype)


@composite("gelu_backward(Tensor dy, Tensor x, str approximate) -> Tensor")
def gelu_backward(dy: Tensor, x: Tensor, approximate: str) -> Tensor:
    """The gradient of `gelu` with respect to `x`, from the input alone: only `x` is saved.

    By tanh, with y its argument and s = (1 + tanh y) / 2: ds/dx = 2 · s · (1 - s) · dy/dx.
    """
    wide = x.float()
    square = wide * wide
    share = _share(wide, square, approximate)
    if approximate == "tanh":
        slope = share * (1.0 - share) * (2.0 * _TANH_LINEAR + 6.0 * _TANH_CUBIC * square)
    else:
        slope = torch.exp(square * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return (dy.float() * (share + wide * slope)).to(x.dtype)


def _share(x: Tensor, square: Tensor, approximate: str) -> Tensor:
    """Φ(x), given the square of x."""
    if approximate == "tanh":
        return 0.5 * (1.0 + torch.tanh(x * (_TANH_LINEAR + _TANH_CUBIC * square)))
    return 0.5 * (1.0 + torch.erf(x * math.sqrt(0.5)))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.approximate = inputs
    ctx.save_for_backward(x)


def _backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
    (x,) = ctx.saved_tensors
    return torch.ops.dmc.gelu_backward(dy, x, ctx.approximate), None


differentiable("gelu", _setup, _backward)
