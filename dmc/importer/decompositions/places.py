"""Reads and writes at computed places, as comparisons with a range and a reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure

aten = torch.ops.aten
Indices = Sequence[Tensor | None]


def _write(x: Tensor, place: Tensor, values: Tensor) -> Tensor:
    """`x` [P, …] with `values` [Q, …] at rows `place` [Q]; the last of several writes to one row wins.

    So it is in PyTorch on the CPU.
    """
    order = torch.arange(place.shape[0], device=x.device)
    rows = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    last = torch.where(place == rows, order, -1).amax(1)
    written = values.to(x.dtype).index_select(0, last.clamp(min=0))
    return torch.where(_over(last >= 0, x), written, x)


def _add(x: Tensor, place: Tensor, values: Tensor) -> Tensor:
    """`x` [P, …] plus `values` [Q, …] at rows `place` [Q]."""
    total = x + _sums(values.reshape(place.numel(), -1), place, x.shape[0]).view(x.shape).to(x.dtype)
    if not x.is_floating_point():
        return total
    # Where nothing is added, -0 stays as it is.
    count = _sums(torch.ones([place.numel(), 1], device=x.device), place, x.shape[0])
    return torch.where(_over(count > 0, x), total, x)


def _sums(values: Tensor, place: Tensor, count: int) -> Tensor:
    """Of `values` [Q, W], for each of so many places [Q]."""
    return torch.ops.dmc.embedding_backward(values, place, count, -1)


def _over(vector: Tensor, x: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (x.dim() - 1))


def _index_put(x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if any(index.dtype == torch.bool for _, index in given):
        return _masked_put(x, given, values, accumulate)
    dims = [dim for dim, _ in given]
    others = [dim for dim in range(x.dim()) if dim not in dims]
    sizes = [x.shape[dim] for dim in dims]
    spread = torch.broadcast_tensors(*(index for _, index in given))
    if not spread[0].numel() or not x.numel():
        return x
    place = _place([torch.where(each < 0, each + size, each) for each, size in zip(spread, sizes, strict=True)], sizes)
    # Indices side by side give their dimensions where they stand; others give them first.
    first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    shape = [x.shape[dim] for dim in others]
    shape[first:first] = spread[0].shape
    own = list(range(first, first + spread[0].dim()))
    rows = values.expand(shape).movedim(own, list(range(len(own)))).reshape(place.numel(), -1)
    whole = x.permute([*dims, *others])
    put = (_add if accumulate else _write)(whole.reshape(prod(sizes), -1), place.reshape(-1), rows)
    back = sorted(range(x.dim()), key=[*dims, *others].__getitem__)
    return put.view(whole.shape).permute(back)


def _masked_put(x: Tensor, given: list[tuple[int, Tensor]], values: Tensor, accumulate: bool) -> Tensor:
    """At the true elements of one mask: one value for all, or one row of values after the other."""
    (dim, mask), *more = given
    if more:
        raise ImportFailure(None, "assigns at a mask and at indices together", hint="use a mask and torch.where")
    rest = [1] * (x.dim() - dim - mask.dim())
    if values.numel() == 1:
        new = values.reshape([]).to(x.dtype)
        return torch.where(mask.reshape([*mask.shape, *rest]), x + new if accumulate else new, x)
    # The dimensions of the mask first, as one.
    apart, together = x.flatten(dim, dim + mask.dim() - 1).movedim(dim, 0), mask.reshape(-1)
    rows = values.to(x.dtype).movedim(dim, 0) if values.dim() == apart.dim() else values.to(x.dtype)
    order = together.to(torch.int64).cumsum(0) - 1
    new = rows.expand([-1, *apart.shape[1:]]) if rows.dim() == apart.dim() else rows.expand(apart.shape)
    new = new.index_select(0, order.clamp(0, new.shape[0] - 1))
    put = torch.where(_over(together, apart), apart + new if accumulate else new, apart)
    return put.movedim(0, dim).reshape(x.shape)


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The true elements of the mask in turn take the first elements of the source."""
    x, mask = torch.broadcast_tensors(x, mask)
    order = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    flat = source.reshape(-1)
    taken = flat.index_select(0, order.clamp(0, flat.shape[0] - 1)).view(x.shape)
    return torch.where(mask, taken.to(x.dtype), x)


def _masked_scatter_backward(dy: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """Element j of the source gets the gradient of the j-th true element of the mask."""
    dy, mask = torch.broadcast_tensors(dy, mask)
    flat = mask.reshape(-1)
    order = torch.where(flat, flat.to(torch.int64).cumsum(0) - 1, -1)
    hit = order == torch.arange(prod(sizes), device=dy.device).unsqueeze(1)
    return torch.where(hit, dy.reshape(-1), number(0, dy)).sum(1).view(sizes)


def _as_strided(x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None) -> Any:
    if not prod(sizes):
        return x.new_empty(sizes)
    order = memory_order(x.shape, x.stride())
    if order is None or x.storage_offset():
        return NotImplemented
    return x.permute(order).reshape(-1).index_select(0, _strided(sizes, strides, offset)).view(sizes)


def _as_strided_scatter(
    x: Tensor, source: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Any:
    if not prod(sizes):
        return x.clone()
    order = memory_order(x.shape, x.stride())
    if order is None or x.storage_offset():
        return NotImplemented
    moved = x.permute(order)
    written = _write(moved.reshape(-1), _strided(sizes, strides, offset), source.reshape(-1))
    return written.view(moved.shape).permute(_back(order))


def _new_empty_strided(x: Tensor, sizes: Sequence[int], strides: Sequence[int], **options: Any) -> Any:
    """What a gradient is written into, which lies in memory as the tensor does."""
    order = memory_order(sizes, strides)
    if order is None:
        return NotImplemented
    return x.new_zeros([sizes[dim] for dim in order], **options).permute(_back(order))


def memory_order(sizes: Sequence[int], strides: Sequence[int]) -> list[int] | None:
    """The dimensions of a tensor without gaps, the outermost in memory first; None of any other."""
    order = sorted(range(len(sizes)), key=lambda dim: -strides[dim])
    step = 1
    for dim in reversed(order):
        if sizes[dim] != 1 and strides[dim] != step:
            return None
        step *= sizes[dim]
    return order


def _back(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _strided(sizes: Sequence[int], strides: Sequence[int], offset: int | None) -> Tensor:
    """Where the elements of a strided view are in memory."""
    place = torch.full([1] * len(sizes), offset or 0, dtype=torch.int64)
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        place = place + stride * torch.arange(size).view([-1 if each == dim else 1 for each in range(len(sizes))])
    return place.reshape(-1)


def _diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    matrix = x.movedim((dim1, dim2), (-2, -1))
    row = torch.arange(matrix.shape[-2], device=x.device).unsqueeze(1)
    column = torch.arange(matrix.shape[-1], device=x.device)
    # The elements of the source, each beside its row or above its column.
    count = matrix.shape[-2 if offset >= 0 else -1]
    spread = torch.nn.functional.pad(source, [0, count - source.shape[-1]]).unsqueeze(-1 if offset >= 0 else -2)
    new = torch.where(column - row == offset, spread.to(x.dtype), matrix)
    return new.movedim((-2, -1), (dim1, dim2))


def _index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    """Of a number, or by one."""
    if x.dim() and index.dim():
        return NotImplemented
    if not x.dim():
        return x.clone()
    return aten.index_select.default(x, dim, index.reshape(1))


def _place(coordinates: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """The number of an element by its coordinates, row by row."""
    place = torch.zeros([], dtype=torch.int64)
    for each, size in zip(coordinates, sizes, strict=True):
        place = place * size + each
    return place


def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    return _at_rows(_add, x, dim, index, source * alpha if alpha != 1 else source)


def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _at_rows(_write, x, dim, index, source)


def _index_fill(x: Tensor, dim: int, index: Tensor, value: float | Tensor) -> Tensor:
    if x.dim() == 0:
        return _index_fill(x.reshape(1), 0, index, value).reshape([])
    rows = torch.arange(x.shape[dim], device=x.device)
    places = torch.where(index < 0, index + x.shape[dim], index)
    hit = (places.reshape(-1).unsqueeze(1) == rows).any(0)
    hit = hit.view([-1 if each == dim % x.dim() else 1 for each in range(x.dim())])
    return torch.where(hit, number(value, x), x)


def _at_rows(change: Callable[..., Tensor], x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`change` at indices along one dimension."""
    if not index.numel() or not x.numel():
        return x
    if x.dim() == 0:
        return change(x.reshape(1), index.reshape(-1), source.reshape(1)).reshape([])
    moved = x.movedim(dim, 0)
    rows = source.movedim(dim, 0) if source.dim() else source.reshape(1)
    return change(moved, index.reshape(-1), rows).movedim(0, dim)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    return _index_put(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate).view(x.shape)


def number(value: float | Tensor, like: Tensor) -> Tensor:
    """A number of the type of a tensor."""
    if isinstance(value, Tensor):
        return value.reshape([]).to(like.dtype)
    return torch.full([], value, dtype=like.dtype, device=like.device)


OWN: dict[Any, Callable[..., Any]] = {
    aten.index_add.default: _index_add,
    aten.index_copy.default: _index_copy,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: _index_put,
    aten.index_select.default: _index_select,
    aten.masked_scatter.default: _masked_scatter,
    aten.masked_scatter_backward.default: _masked_scatter_backward,
    aten.as_strided.default: _as_strided,
    aten.new_empty_strided.default: _new_empty_strided,
    aten.as_strided_copy.default: _as_strided,
    aten.as_strided_scatter.default: _as_strided_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.put.default: _put,
}
