"""Distances between the rows of matrices, whose gradient is zero where they are."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten


@rule(aten.cdist.default)
def _cdist(random: Randomness, a: Tensor, b: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    return _Norm.apply(a.unsqueeze(-2) - b.unsqueeze(-3), float(p))


@rule(aten.pdist.default)
def _pdist(random: Randomness, x: Tensor, p: float = 2.0) -> Tensor:
    """Of the first row and each later one, then of the second …"""
    number = torch.arange(x.shape[0], device=x.device)
    pairs = [(number[i : i + 1].expand(len(x) - i - 1), number[i + 1 :]) for i in range(len(x) - 1)]
    if not pairs:
        return x.new_empty([0])
    first, second = (x.index_select(0, torch.cat(each)) for each in zip(*pairs, strict=True))
    return _Norm.apply(first - second, float(p))


class _Norm(torch.autograd.Function):
    """The p-norm of each row of differences."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, p, -1)
        ctx.p = p
        ctx.save_for_backward(x, norm)
        return norm

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        x, norm = (each for each in ctx.saved_tensors)
        norm = norm.unsqueeze(-1)
        return grad_outputs[0].unsqueeze(-1) * _slope(x, norm, ctx.p), None


def _slope(x: Tensor, norm: Tensor, p: float) -> Tensor:
    if p == 0.0:
        return torch.zeros_like(x)
    if p == 1.0:
        return x.sign()
    if p == inf:
        return torch.where(x.abs() == norm, x.sign(), 0.0)
    safe = torch.where(norm == 0.0, 1.0, norm)
    if p == 2.0:
        return torch.where(norm == 0.0, 0.0, x / safe)
    # Below one the slope of zero would be infinite.
    size = torch.where(x == 0.0, 1.0, x.abs())
    return torch.where((norm == 0.0) | (x == 0.0), 0.0, x.sign() * (size / safe) ** (p - 1.0))
