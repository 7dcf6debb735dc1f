"""Layer normalisation (Ba, Kiros and Hinton, 2016) over the last `axes` dimensions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable, sum_over


@composite(
    "layer_norm(Tensor x, Tensor weight, Tensor bias, int axes, float eps) -> (Tensor y, Tensor mean, Tensor rstd)"
)
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, axes: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """`y` with the shape and dtype of `x`; `mean` and `rstd` in f32 with the normalised dimensions kept as 1."""
    wide = x.float()
    dims = list(range(x.dim() - axes, x.dim()))
    mean = wide.mean(dims, keepdim=True)
    centred = wide - mean
    variance = (centred * centred).mean(dims, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    y = centred * rstd * weight.float() + bias.float()
    return y.to(x.dtype), mean, rstd


@composite(
    "layer_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor rstd, int axes)"
    " -> (Tensor dx, Tensor dweight, Tensor dbias)"
)
def layer_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor, axes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for `x`, `weight` and `bias`, in their dtypes, from the input and its saved statistics."""
    dims = list(range(x.dim() - axes, x.dim()))
    rows = list(range(x.dim() - axes))
    normal = (x.float() - mean) * rstd
    wide = dy.float()
    scaled = wide * weight.float()
    offset = scaled.mean(dims, keepdim=True)
    slope = (scaled * normal).mean(dims, keepdim=True)
    dx = (scaled - offset - normal * slope) * rstd
    dweight = sum_over(wide * normal, rows)
    dbias = sum_over(wide, rows)
    return dx.to(x.dtype), dweight.to(weight.dtype), dbias.to(weight.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, _, ctx.axes, _ = inputs
    _, mean, rstd = output
    ctx.save_for_backward(x, weight, mean, rstd)
    ctx.mark_non_differentiable(mean, rstd)


def _backward(ctx: Any, dy: Tensor, _mean: Tensor, _rstd: Tensor) -> tuple[Any, ...]:
    x, weight, mean, rstd = ctx.saved_tensors
    dx, dweight, dbias = torch.ops.dmc.layer_norm_backward(dy, x, weight, mean, rstd, ctx.axes)
    return dx, dweight, dbias, None, None


differentiable("layer_norm", _setup, _backward)
