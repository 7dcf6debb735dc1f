"""Reductions of segments along a dimension: `torch.segment_reduce`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten
# What a segment begins with; an empty one has no mean.
_FIRST = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}


@rule(aten.segment_reduce.default)
def _segment_reduce(
    random: Randomness,
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """x [.., N, ..], of whose dimension `axis` segment s has `lengths` [.., s], or begins at `offsets` [.., s]."""
    if offsets is None:
        assert lengths is not None, "eager takes one of both"
        ends = lengths.cumsum(-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    place = torch.arange(x.shape[axis])
    inside = (starts.unsqueeze(-1) <= place) & (place < ends.unsqueeze(-1))
    inner = [1] * (x.dim() - axis - 1)
    inside, lengths = inside.view([*inside.shape, *inner]), (ends - starts).view([*starts.shape, *inner])
    first = _FIRST[reduce] if initial is None else float(initial)
    x, dim = x.unsqueeze(axis), axis + 1
    if reduce in ("sum", "mean"):
        total = torch.where(inside, x, 0.0).sum(dim) + (0.0 if initial is None else first)
        # An initial value is one more term, but does not count.
        return total if reduce == "sum" else torch.where(lengths == 0, first, total / lengths.clamp(min=1))
    if reduce == "prod":
        return torch.where(inside, x, 1.0).prod(dim) * first
    return _Extreme.apply(torch.where(inside, x, _FIRST[reduce]), inside, reduce == "max", dim, first)


class _Extreme(torch.autograd.Function):
    """The largest or smallest number of each segment, and `first`; elements that are not inside are infinite.

    As in eager, NaN has a gradient beside any other, and equal ones share one above zero, but each have one below.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, inside: Tensor, largest: bool, dim: int, first: float) -> Tensor:
        start = torch.full([], first, dtype=x.dtype)
        found = torch.maximum(x.amax(dim), start) if largest else torch.minimum(x.amin(dim), start)
        ctx.dim = dim
        ctx.save_for_backward(inside & (x.isnan() | (x == found.unsqueeze(dim))))
        return found

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None, None, None]:
        (has_part,) = ctx.saved_tensors
        dy = grad_outputs[0].unsqueeze(ctx.dim)
        count = has_part.to(dy.dtype).sum(ctx.dim, keepdim=True)
        return torch.where(has_part, torch.where(dy > 0.0, dy / count, dy), 0.0), None, None, None, None
