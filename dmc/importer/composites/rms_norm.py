"""Root mean square normalisation (Zhang and Sennrich, 2019) over the last `axes` dimensions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable, sum_over


@composite("rms_norm(Tensor x, Tensor weight, int axes, float eps) -> (Tensor y, Tensor rstd)")
def rms_norm(x: Tensor, weight: Tensor, axes: int, eps: float) -> tuple[Tensor, Tensor]:
    """`y` with the shape and dtype of `x`; `rstd` in f32 with the normalised dimensions kept as 1."""
    wide = x.float()
    dims = list(range(x.dim() - axes, x.dim()))
    rstd = torch.rsqrt((wide * wide).mean(dims, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype), rstd


@composite(
    "rms_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor rstd, int axes) -> (Tensor dx, Tensor dweight)"
)
def rms_norm_backward(dy: Tensor, x: Tensor, weight: Tensor, rstd: Tensor, axes: int) -> tuple[Tensor, Tensor]:
    """Gradients for `x` and `weight`, in their dtypes."""
    dims = list(range(x.dim() - axes, x.dim()))
    rows = list(range(x.dim() - axes))
    normal = x.float() * rstd
    wide = dy.float()
    scaled = wide * weight.float()
    slope = (scaled * normal).mean(dims, keepdim=True)
    dx = (scaled - normal * slope) * rstd
    return dx.to(x.dtype), sum_over(wide * normal, rows).to(weight.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, weight, ctx.axes, _ = inputs
    ctx.save_for_backward(x, weight, output[1])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, dy: Tensor, _rstd: Tensor) -> tuple[Any, ...]:
    x, weight, rstd = ctx.saved_tensors
    dx, dweight = torch.ops.dmc.rms_norm_backward(dy, x, weight, rstd, ctx.axes)
    return dx, dweight, None, None


differentiable("rms_norm", _setup, _backward)
