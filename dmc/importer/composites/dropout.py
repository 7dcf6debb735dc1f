"""Inverted dropout (Srivastava et al., 2014) whose mask is a function of (seed, draw): never stored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable
from dmc.importer.composites.philox import BITS, uniform_bits


def threshold(p: float) -> int:
    """What is dropped with probability `p` draws less than this: `p` is rounded to 1/65536."""
    return round(p * 2**BITS)


def keep_scale(shape: list[int], seed: Tensor, draw: Tensor, p: float) -> Tensor:
    """f32 tensor of `shape`: 1/(1-p), as in eager, with probability 1-p, else 0; seed and draw are int64 scalars."""
    if p >= 1.0:
        return torch.zeros(shape, dtype=torch.float32, device=seed.device)
    keep = uniform_bits(shape, seed, draw) >= threshold(p)
    return torch.where(keep, 1.0 / (1.0 - p), 0.0)


@composite("dropout(Tensor x, Tensor seed, Tensor draw, float p) -> Tensor")
def dropout(x: Tensor, seed: Tensor, draw: Tensor, p: float) -> Tensor:
    """`x` with each element zeroed with probability `p`, the rest scaled by 1/(1-p); shape and dtype of `x`."""
    return (x.float() * keep_scale(list(x.shape), seed, draw, p)).to(x.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, seed, draw, ctx.p = inputs
    ctx.save_for_backward(seed, draw)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    # Dropout is linear and its mask depends on the position only, so its gradient is dropout with the same mask.
    seed, draw = ctx.saved_tensors
    return torch.ops.dmc.dropout(dy, seed, draw, ctx.p), None, None, None


differentiable("dropout", _setup, _backward, is_linear=True)
