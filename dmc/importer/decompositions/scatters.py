"""Scatters: writes and reductions at places along one dimension, as comparisons with a range and a reduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.importer.decompositions.places import number
from dmc.importer.decompositions.selection import MAX_ROUNDS, worst

aten = torch.ops.aten


def _along(change: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`change` on vectors, for which a number may stand, and of the same sizes but along a dimension: an index may
    mean but the first elements of the others, and read but the first elements of its source.
    """

    def in_box(x: Tensor, dim: int, index: Tensor, source: Any, *options: Any, **named: Any) -> Tensor:
        for each, size in enumerate(index.shape):
            if each != dim and size < x.shape[each]:
                first, rest = x.narrow(each, 0, size), x.narrow(each, size, x.shape[each] - size)
                return torch.cat([in_box(first, dim, index, source, *options, **named), rest], each)
        return change(x, dim, index, source, *options, **named)

    def decomposed(x: Tensor, dim: int, index: Tensor, source: Any, *options: Any, **named: Any) -> Tensor:
        if not index.numel():
            return x
        row, where = (each if each.dim() else each.reshape(1) for each in (x, index))
        if isinstance(source, Tensor):
            source = source if source.dim() else source.reshape(1)
            for each, size in enumerate(where.shape):
                source = source.narrow(each, 0, size)
        return in_box(row, dim % row.dim(), where, source, *options, **named).reshape(x.shape)

    return decomposed


@_along
def _scatter(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """The last of several writes to one place wins, as in PyTorch on the CPU."""
    if index.shape[dim] <= MAX_ROUNDS:
        places = _range(x, dim)
        for k in range(index.shape[dim]):
            x = torch.where(index.narrow(dim, k, 1) == places, source.narrow(dim, k, 1), x)
        return x
    last = torch.where(_hits(x, dim, index), _range(index, dim).unsqueeze(dim), -1).amax(dim + 1)
    return torch.where(last >= 0, source.gather(dim, last.clamp(min=0)), x)


@_along
def _scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    return torch.where(_hits(x, dim, index).any(dim + 1), number(value, x), x)


@_along
def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    hit = _hits(x, dim, index)
    # A zero of the same type: 0.0 would make integers f32.
    total = x + torch.where(hit, source.unsqueeze(dim), number(0, source)).sum(dim + 1).to(x.dtype)
    # Where nothing is added, -0 stays as it is.
    return torch.where(hit.any(dim + 1), total, x) if x.is_floating_point() else total


@_along
def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    hit, source = _hits(x, dim, index), source.to(x.dtype).unsqueeze(dim)
    if reduce == "prod":
        found = torch.where(hit, source, number(1, x)).prod(dim + 1)
        combined = x * found
    elif reduce in ("amax", "amin"):
        least, extreme, both = _EXTREMES[reduce]
        found = extreme(torch.where(hit, source, number(least(x.dtype), x)), dim + 1)
        combined = both(x, found)
    else:
        found = torch.where(hit, source, number(0, x)).sum(dim + 1).to(x.dtype)
        combined = x + found
    count = hit.to(torch.int64).sum(dim + 1)
    if reduce == "mean":
        divisor = (count + 1 if include_self else count.clamp(min=1)).to(x.dtype)
        mode = None if x.is_floating_point() else "floor"
        found, combined = (torch.div(each, divisor, rounding_mode=mode) for each in (found, combined))
    return torch.where(count > 0, combined if include_self else found, x)


def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if x.dim():
        index = index.view([-1 if each == dim % x.dim() else 1 for each in range(x.dim())]).expand(source.shape)
    return _scatter_reduce(x, dim, index, source, reduce, include_self=include_self)


def _to_places(dims: int) -> Callable[..., Tensor]:
    """The gradient of a maximum over windows: of the last `dims` dimensions, to the places that were found."""

    def decomposed(dy: Tensor, x: Tensor, *options: Any) -> Tensor:
        place = options[-1].flatten(-dims)
        none = torch.zeros_like(x).flatten(-dims)
        return none.scatter_add(-1, place, dy.flatten(-dims)).view(x.shape)

    return decomposed


def _gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """Of a number, or by one, as of and by a row of one element."""
    if x.dim() and index.dim():
        return NotImplemented
    return x.reshape(-1).gather(0, index.reshape(-1)).reshape(index.shape)


def _hits(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Whether an element of `x` is meant by one of the index: of the shape of `x`, then along `dim` that of the
    index."""
    return index.unsqueeze(dim) == _range(x, dim).unsqueeze(dim + 1)


def _range(x: Tensor, dim: int) -> Tensor:
    return torch.arange(x.shape[dim], device=x.device).view([-1 if each == dim else 1 for each in range(x.dim())])


_EXTREMES = {
    "amax": (lambda dtype: worst(dtype, largest=True), torch.amax, torch.maximum),
    "amin": (lambda dtype: worst(dtype, largest=False), torch.amin, torch.minimum),
}
OWN: dict[Any, Callable[..., Any]] = {
    aten.scatter.value: _scatter_value,
    aten.scatter.src: _scatter,
    aten.scatter_add.default: _scatter_add,
    aten.scatter_reduce.two: _scatter_reduce,
    aten.gather.default: _gather,
    aten.index_reduce.default: _index_reduce,
    aten.adaptive_max_pool2d_backward.default: _to_places(2),
    aten.adaptive_max_pool3d_backward.default: _to_places(3),
    aten.fractional_max_pool2d_backward.default: _to_places(2),
    aten.fractional_max_pool3d_backward.default: _to_places(3),
    aten.max_pool2d_with_indices_backward.default: _to_places(2),
    aten.max_pool3d_with_indices_backward.default: _to_places(3),
}
