"""Inverted dropout (Srivastava et al., 2014) whose mask is a function of (seed, draw): never stored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.dropout import Share, share_of
from dmc.importer.composites.base import composite, differentiable
from dmc.importer.composites.philox import uniform_bits


def keep_scale(shape: list[int], seed: Tensor, draw: Tensor, share: Share) -> Tensor:
    """f32 tensor of `shape`: the scale of `share` where an element is kept, else 0; seed and draw are int64 scalars."""
    if share.dropped >= 1.0:
        return torch.zeros(shape, dtype=torch.float32, device=seed.device)
    keep = uniform_bits(shape, seed, draw, share.bits) >= share.threshold
    return torch.where(keep, share.scale, 0.0)


@composite("dropout(Tensor x, Tensor seed, Tensor draw, float p) -> Tensor")
def dropout(x: Tensor, seed: Tensor, draw: Tensor, p: float) -> Tensor:
    """`x` with each element zeroed with probability `p`, the rest scaled by 1/(1-p); shape and dtype of `x`."""
    return (x.float() * keep_scale(list(x.shape), seed, draw, share_of(p))).to(x.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, seed, draw, ctx.p = inputs
    ctx.save_for_backward(seed, draw)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    # Dropout is linear and its mask depends on the position only, so its gradient is dropout with the same mask.
    seed, draw = ctx.saved_tensors
    return torch.ops.dmc.dropout(dy, seed, draw, ctx.p), None, None, None


differentiable("dropout", _setup, _backward, is_linear=True)
