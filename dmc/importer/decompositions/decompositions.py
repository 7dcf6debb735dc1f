"""How operations that remain after differentiation become ones that torch-mlir lowers to linalg only.

Scatters, scans and sorts would leave linalg (`tm_tensor`) and, on some backends, be non-deterministic; they are
written as comparisons with a range and a reduction, whose order of summation is fixed.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from dmc.errors import ImportFailure
from dmc.importer.decompositions import angles, functions, nonfinite, power, scalars, selection
from dmc.importer.decompositions.functions import NARROW

aten = torch.ops.aten
MAX_ROUNDS = selection.MAX_ROUNDS


def table() -> dict[Any, Callable[..., Any]]:
    """torch-mlir's decompositions, overridden by ours."""
    own = (nonfinite.OWN, scalars.OWN, selection.OWN, power.OWN, functions.OWN, angles.OWN, _OWN)
    return dict(ChainMap(*reversed(own), get_decomposition_table()))


def _sum(x: Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Narrow types are summed in f32, as in PyTorch; torch-mlir would accumulate in the type itself."""
    if x.dtype not in NARROW:
        return NotImplemented
    return x.float().sum(dim or None, keepdim).to(dtype or x.dtype)


def _mean(x: Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    if x.dtype not in NARROW:
        return NotImplemented
    return x.float().mean(dim or None, keepdim).to(dtype or x.dtype)


def _vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if x.dtype not in NARROW or dtype is not None:
        return NotImplemented
    return torch.linalg.vector_norm(x.float(), ord, dim, keepdim).to(x.dtype)


def _norm(x: Tensor, p: float | None, dim: list[int], keepdim: bool = False) -> Tensor:
    return torch.linalg.vector_norm(x, 2 if p is None else p, dim, keepdim)


def _average_pool(pool: Any, rank: int) -> Callable[..., Any]:
    """`pool` of a batch in a wide type: what torch-mlir accepts, and accumulates without intermediate rounding."""

    def decomposed(x: Tensor, *window: Any) -> Any:
        if x.dtype not in NARROW and x.dim() == rank:
            return NotImplemented
        wide = x.float() if x.dtype in NARROW else x
        result = pool(wide.reshape([1] * (rank - x.dim()) + list(x.shape)), *window).to(x.dtype)
        return result.reshape(result.shape[rank - x.dim() :])

    return decomposed


def _convolution_backward(dy: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, *options: Any) -> Any:
    """Computed apart from the other gradients, that of the bias is an ordinary sum."""
    *window, (wants_x, wants_weight, wants_bias) = options
    if not wants_bias:
        return NotImplemented
    mask = [wants_x, wants_weight, False]
    dx, dweight, _ = aten.convolution_backward.default(dy, x, weight, None, *window, mask)
    return dx, dweight, dy.sum([0, *range(2, dy.dim())])


def _scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    return _scatter(x, dim, index, torch.full_like(index, value, dtype=x.dtype))


def _along(scatter: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`scatter` on vectors; a row, an index or a source may be a scalar."""

    def decomposed(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        rows = (each if each.dim() else each.reshape(1) for each in (x, index, source))
        row, *others = rows
        return scatter(row, dim, *others).reshape(x.shape)

    return decomposed


@_along
def _scatter(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """The last of several writes to one element wins, as in PyTorch on the CPU."""
    dim = _normal(dim, x)
    _refuse_partial("scatter", x, dim, index)
    source = _as_wide_as(index, source)
    if index.shape[dim] > MAX_ROUNDS:
        raise ImportFailure(
            None,
            f"a scatter of {index.shape[dim]} elements per row is not supported",
            hint="use a mask and torch.where",
        )
    places = _range(x, dim)
    for k in range(index.shape[dim]):
        x = torch.where(index.narrow(dim, k, 1) == places, source.narrow(dim, k, 1), x)
    return x


@_along
def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    dim = _normal(dim, x)
    _refuse_partial("scatter_add", x, dim, index)
    source = _as_wide_as(index, source)
    hit = index.unsqueeze(dim) == _range(x, dim).unsqueeze(dim + 1)
    # A zero of the same type: 0.0 would make integers f32.
    spread = torch.where(hit, source.unsqueeze(dim), torch.zeros([], dtype=source.dtype, device=x.device))
    return x + spread.sum(dim + 1).to(x.dtype)


def _gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """Treats a scalar operand as a row of one element."""
    if x.dim() and index.dim():
        return NotImplemented
    return x.reshape(-1).gather(0, index.reshape(-1)).reshape(index.shape)


def _as_wide_as(index: Tensor, source: Tensor) -> Tensor:
    """The part of the source that the index reads; the source may be larger."""
    for dim, size in enumerate(index.shape):
        source = source.narrow(dim, 0, size)
    return source


def _index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Accumulation at integer indices of the leading dimensions, the gradient of `x[i, j]`."""
    leading = [index for index in indices if index is not None]
    prefix = all(index is not None for index in indices[: len(leading)])
    if not accumulate or not prefix or any(index.dtype == torch.bool for index in leading):
        raise ImportFailure(
            None, "assignment at computed indices is not supported", hint="use a mask and torch.where instead"
        )
    sizes = list(x.shape[: len(leading)])
    rest = list(x.shape[len(leading) :])
    place = torch.zeros([], dtype=torch.int64, device=x.device)
    for index, size in zip(leading, sizes, strict=True):
        place = place * size + torch.where(index < 0, index + size, index)
    rows = 1
    for size in sizes:
        rows *= size
    spread = values.expand([*place.shape, *rest]).reshape(place.numel(), -1)
    return x + _row_sums(spread, place.reshape(-1), rows).view(x.shape)


def _row_sums(x: Tensor, place: Tensor, rows: int) -> Tensor:
    """For each of `rows`, the sum of the rows of `x` assigned to it.

    The composite multiplies by zeros and ones, and zero times infinity is NaN, so non-finite elements are counted
    separately.
    """
    if not x.is_floating_point():
        return torch.ops.dmc.embedding_backward(x, place, rows, -1)
    up, down = (nonfinite.is_nan(x) | (x == infinity) for infinity in (math.inf, -math.inf))
    # In the composite's accumulation type: a narrow type would round large counts.
    parts = [torch.where(up | down, 0.0, x.float()), up.float(), down.float()]
    sums = torch.ops.dmc.embedding_backward(torch.cat(parts, 1), place, rows, -1)
    total, ups, downs = (sums.narrow(1, part * x.shape[1], x.shape[1]) for part in range(3))
    total = torch.where(ups > 0.0, math.inf, total) - torch.where(downs > 0.0, math.inf, 0.0)
    return total.to(x.dtype)


def _cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    dtype = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    if x.dim() == 0:
        return x.to(dtype)
    dim = _normal(dim, x)
    moved = x.to(dtype).movedim(dim, -1)
    position = torch.arange(moved.shape[-1], device=x.device)
    earlier = position.unsqueeze(0) <= position.unsqueeze(1)
    return torch.where(earlier, moved.unsqueeze(-2), 0).sum(-1, dtype=dtype).movedim(-1, dim)


def _constant_pad(x: Tensor, pad: list[int], value: float = 0.0) -> Any:
    """Negative padding crops, as the gradient of a padding does."""
    if min(pad, default=0) >= 0:
        return NotImplemented
    for place in range(0, len(pad), 2):
        dim = x.dim() - 1 - place // 2
        first, last = max(-pad[place], 0), max(-pad[place + 1], 0)
        x = x.narrow(dim, first, x.shape[dim] - first - last)
    return aten.constant_pad_nd.default(x, [max(size, 0) for size in pad], value)


def _roll(x: Tensor, shifts: list[int], dims: list[int] | None = None) -> Tensor:
    """torch-mlir treats a shift by more than the size as negative."""
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).view(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        kept = size - shift % size
        x = torch.cat([x.narrow(dim, kept, size - kept), x.narrow(dim, 0, kept)], dim) if kept < size else x
    return x


def _select_scatter(x: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    at = index % x.shape[dim]
    return aten.slice_scatter.default(x, source.unsqueeze(dim), dim, at, at + 1)


def _slice_scatter(x: Tensor, source: Tensor, *place: Any) -> Any:
    """The result has the target's type; torch-mlir would use the type of the written value."""
    return NotImplemented if source.dtype == x.dtype else aten.slice_scatter.default(x, source.to(x.dtype), *place)


def _split_with_sizes(x: Tensor, sizes: list[int], dim: int = 0) -> list[Tensor]:
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [x.narrow(dim, start, size) for start, size in zip(starts, sizes, strict=True)]


def _split(x: Tensor, size: int, dim: int = 0) -> list[Tensor]:
    whole = x.shape[dim]
    return _split_with_sizes(x, [min(size, whole - start) for start in range(0, whole, size)], dim)


def _unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    return [x.select(dim, index) for index in range(x.shape[dim])]


def _range(x: Tensor, dim: int) -> Tensor:
    view = [1] * x.dim()
    view[dim] = x.shape[dim]
    return torch.arange(x.shape[dim], device=x.device).view(view)


def _normal(dim: int, x: Tensor) -> int:
    return dim % x.dim()


def _refuse_partial(op: str, x: Tensor, dim: int, index: Tensor) -> None:
    if any(index.shape[d] != x.shape[d] for d in range(x.dim()) if d != dim):
        raise ImportFailure(None, f"{op} with an index of another shape is not supported", hint="expand the index")


_OWN: dict[Any, Callable[..., Any]] = {
    aten.scatter.value: _scatter_value,
    aten.scatter.src: _scatter,
    aten.scatter_add.default: _scatter_add,
    aten.gather.default: _gather,
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: _index_put,
    aten.cumsum.default: _cumsum,
    aten.convolution_backward.default: _convolution_backward,
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.norm.ScalarOpt_dim: _norm,
    aten.avg_pool2d.default: _average_pool(aten.avg_pool2d.default, 4),
    aten.avg_pool3d.default: _average_pool(aten.avg_pool3d.default, 5),
    aten.constant_pad_nd.default: _constant_pad,
    aten.roll.default: _roll,
    aten.select_scatter.default: _select_scatter,
    aten.slice_scatter.default: _slice_scatter,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.split.Tensor: _split,
    aten.unbind.int: _unbind,
}
