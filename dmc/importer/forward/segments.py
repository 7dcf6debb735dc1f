"""Reductions of segments along a dimension: `torch.segment_reduce`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dmc.importer.forward.randomness import Randomness
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
        return _added(torch.where(inside, x, 0.0).sum(dim), lengths, reduce, first)
    if reduce == "prod":
        return torch.where(inside, x, 1.0).prod(dim) * first
    each = torch.where(inside, x, _FIRST[reduce])
    found = each.amax(dim) if reduce == "max" else each.amin(dim)
    # Of equal ones the elements count.
    return torch.where(found < first if reduce == "max" else found > first, first, found)


def _added(total: Tensor, lengths: Tensor, reduce: str, first: float) -> Tensor:
    if reduce == "sum":
        return total + first
    # An initial value is one more term, but does not count.
    total = total if math.isnan(first) else total + first
    return torch.where(lengths == 0, first, total / lengths.clamp(min=1))
