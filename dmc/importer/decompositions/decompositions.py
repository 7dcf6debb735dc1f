"""How operations that survive differentiation become ones that torch-mlir lowers to linalg alone.

Scatters, scans and sorts would leave linalg (`tm_tensor`) and, on some backends, be non-deterministic; they are
written as comparisons with a range and a reduction, whose order of summation is fixed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from dmc.errors import ImportFailure
from dmc.importer.decompositions import angles, functions, nonfinite, power, scalars, selection, sums
from dmc.importer.decompositions.functions import NARROW

aten = torch.ops.aten
MAX_ROUNDS = selection.MAX_ROUNDS


def table() -> dict[Any, Callable[..., Any]]:
    """torch-mlir's decompositions, overridden by ours."""
    own = (nonfinite.OWN, scalars.OWN, selection.OWN, power.OWN, functions.OWN, angles.OWN, sums.OWN, _OWN)
    return dict(ChainMap(*reversed(own), get_decomposition_table()))


def _average_pool(pool: Any, rank: int) -> Callable[..., Any]:
    """`pool` of a batch in a wide type: what torch-mlir takes, and adds up without rounding each time."""

    def decomposed(x: Tensor, *window: Any) -> Any:
        if x.dtype not in NARROW and x.dim() == rank:
            return NotImplemented
        wide = x.float() if x.dtype in NARROW else x
        result = pool(wide.reshape([1] * (rank - x.dim()) + list(x.shape)), *window).to(x.dtype)
        return result.reshape(result.shape[rank - x.dim() :])

    return decomposed


def _convolution_backward(dy: Tensor, x: Tensor, weight: Tensor, bias_sizes: Any, *options: Any) -> Any:
    """Apart from the rest of the gradient, that of the bias is a sum like any other."""
    *window, (wants_x, wants_weight, wants_bias) = options
    if not wants_bias:
        return NotImplemented
    mask = [wants_x, wants_weight, False]
    dx, dweight, _ = aten.convolution_backward.default(dy, x, weight, None, *window, mask)
    return dx, dweight, dy.sum([0, *range(2, dy.dim())])


def _scatter_value(x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    return _scatter(x, dim, index, torch.full_like(index, value, dtype=x.dtype))


def _along(scatter: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`scatter` on vectors, for which a number may stand in a row, an index and a source."""

    def decomposed(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
        rows = (each if each.dim() else each.reshape(1) for each in (x, index, source))
        row, *others = rows
        return scatter(row, dim, *others).reshape(x.shape)

    return decomposed


@_along
def _scatter(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """The last of several writes to one place wins, as in PyTorch on the CPU."""
    dim = _normal(dim, x)
    _refuse_partial("scatter", x, dim, index)
    source = _as_wide_as(index, source)
    if index.shape[dim] > MAX_ROUNDS:
        raise ImportFailure(
            None, f"a scatter of {index.shape[dim]} elements a row is not compiled", hint="use a mask and torch.where"
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
    """Of a number, or by one, as of and by a row of one element."""
    if x.dim() and index.dim():
        return NotImplemented
    return x.reshape(-1).gather(0, index.reshape(-1)).reshape(index.shape)


def _as_wide_as(index: Tensor, source: Tensor) -> Tensor:
    """What the index reads of the source, which may be larger."""
    for dim, size in enumerate(index.shape):
        source = source.narrow(dim, 0, size)
    return source


def _index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Accumulation at integer indices of the leading dimensions, the gradient of `x[i, j]`."""
    leading = [index for index in indices if index is not None]
    prefix = all(index is not None for index in indices[: len(leading)])
    if not accumulate or not prefix or any(index.dtype == torch.bool for index in leading):
        raise ImportFailure(
            None, "assignment at computed indices is not compiled", hint="use a mask and torch.where instead"
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
    return x + torch.ops.dmc.embedding_backward(spread, place.reshape(-1), rows, -1).view(x.shape)


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
    """A negative number cuts elements off, as the gradient of a padding does."""
    if min(pad, default=0) >= 0:
        return NotImplemented
    for place in range(0, len(pad), 2):
        dim = x.dim() - 1 - place // 2
        first, last = max(-pad[place], 0), max(-pad[place + 1], 0)
        x = x.narrow(dim, first, x.shape[dim] - first - last)
    return aten.constant_pad_nd.default(x, [max(size, 0) for size in pad], value)


def _roll(x: Tensor, shifts: list[int], dims: list[int] | None = None) -> Tensor:
    """torch-mlir takes a shift by more than the size for one by less than nothing."""
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
    """The result is of the target's type; torch-mlir would give that of what is written."""
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
        raise ImportFailure(None, f"{op} with an index of another shape is not compiled", hint="expand the index")


_OWN: dict[Any, Callable[..., Any]] = {
    aten.scatter.value: _scatter_value,
    aten.scatter.src: _scatter,
    aten.scatter_add.default: _scatter_add,
    aten.gather.default: _gather,
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: _index_put,
    aten.cumsum.default: _cumsum,
    aten.convolution_backward.default: _convolution_backward,
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
