"""Distances between the rows of matrices, whose gradient is zero where they are."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten


@rule(aten.cdist.default)
def _cdist(random: Randomness, a: Tensor, b: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    return _Norm.apply(a.unsqueeze(-2) - b.unsqueeze(-3), float(p), True)


@rule(aten.pdist.default)
def _pdist(random: Randomness, x: Tensor, p: float = 2.0) -> Tensor:
    """Of the first row and each later one, then of the second …"""
    number = torch.arange(x.shape[0], device=x.device)
    pairs = [(number[i : i + 1].expand(len(x) - i - 1), number[i + 1 :]) for i in range(len(x) - 1)]
    if not pairs:
        # Its gradient is zero, not absent.
        return x[:0].sum(-1)
    first, second = (x.index_select(0, torch.cat(each)) for each in zip(*pairs, strict=True))
    return _Norm.apply(first - second, float(p), False)


class _Norm(torch.autograd.Function):
    """The p-norm of each row of differences. drops_nan: whether the largest of a row is that of its numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, drops_nan: bool) -> Tensor:
        norm = _norm(torch.where(x.isnan(), 0.0, x) if drops_nan and p == inf else x, p)
        ctx.p = p
        ctx.save_for_backward(x, norm)
        return norm

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        x, norm = (each for each in ctx.saved_tensors)
        norm = norm.unsqueeze(-1)
        slope = grad_outputs[0].unsqueeze(-1) * _slope(x, norm, ctx.p)
        # Where it is flat, a gradient that is not finite ends, too.
        return torch.where(_is_flat(x, norm, ctx.p), 0.0, slope), None, None


def _norm(x: Tensor, p: float) -> Tensor:
    if p == 0.0:
        # A row with NaN has no count of what is not zero.
        return torch.where(x.isnan(), x, (x != 0.0).to(x.dtype)).sum(-1)
    return torch.linalg.vector_norm(x, p, -1)


def _is_flat(x: Tensor, norm: Tensor, p: float) -> Tensor:
    """Where the gradient is zero whatever comes: below one the slope of zero would be infinite."""
    if p in (1.0, inf):
        return torch.zeros_like(x, dtype=torch.bool)
    if p == 0.0:
        return torch.ones_like(x, dtype=torch.bool)
    return ((norm == 0.0) | (x == 0.0) if p < 1.0 else norm == 0.0).expand_as(x)


def _slope(x: Tensor, norm: Tensor, p: float) -> Tensor:
    if p == 0.0:
        return torch.zeros_like(x)
    sign = torch.where(x.isnan(), x, x.sign())
    if p == 1.0:
        return sign
    if p == inf:
        gap = x.abs() - norm
        return torch.where(gap == 0.0, sign, torch.where(gap.isnan(), gap, 0.0))
    safe = torch.where(norm == 0.0, 1.0, norm)
    if p == 2.0:
        return x / safe
    size = torch.where(x == 0.0, 1.0, x.abs())
    return sign * (size / safe) ** (p - 1.0)
