"""How operations that survive differentiation become ones that torch-mlir lowers to linalg alone.

Scatters, scans and sorts would leave linalg (`tm_tensor`) and, on some backends, be non-deterministic; they are
written as comparisons with a range and a reduction, whose order of summation is fixed.
"""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from dmc.importer.decompositions import (
    angles,
    approximated,
    borrowed,
    convolutions,
    eigen,
    functions,
    matrices,
    nonfinite,
    places,
    power,
    scalars,
    scans,
    scatters,
    selection,
    special,
    sums,
)

aten = torch.ops.aten
MODULES = (
    angles, approximated, borrowed, convolutions, eigen, functions, matrices, nonfinite, places, power, scalars, scans,
    scatters, selection, special, sums,
)  # fmt: skip


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """torch-mlir's decompositions, overridden by ours; not to be changed."""
    return dict(ChainMap(_OWN, *(module.OWN for module in MODULES), get_decomposition_table()))


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
    if not x.numel():
        return x
    if not dims:
        return _roll(x.reshape(-1), shifts, [0]).view(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        kept = size - shift % size
        x = torch.cat([x.narrow(dim, kept, size - kept), x.narrow(dim, 0, kept)], dim) if kept < size else x
    return x


def _where(condition: Tensor, x: Tensor, y: Tensor) -> Any:
    """torch-mlir takes a choice between one tensor and itself for that tensor, of whatever shape the choice is."""
    shape = torch.broadcast_shapes(condition.shape, x.shape, y.shape)
    # Single numbers, which many masks choose between, are left as they are: passes know them so.
    if x.shape != y.shape or x.shape == shape or (not x.dim() and x is not y):
        return NotImplemented
    return aten.where.self(condition, x.expand(shape), y.expand(shape))


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


def _shift(operation: Any) -> Callable[[Tensor, Any], Tensor]:
    """`x << n` and `x >> n`, of which torch-mlir knows only the functions' names."""
    return lambda x, count: operation(x, torch.as_tensor(count, dtype=x.dtype))


def _empty(size: Sequence[int], dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    """Zeros: of what nothing defines, a kernel that reads a part would write nothing."""
    return torch.zeros(size, dtype=dtype, device=options.get("device"))


_OWN: dict[Any, Callable[..., Any]] = {
    aten.empty.memory_format: _empty,
    aten.empty_like.default: lambda x, dtype=None, **_: _empty(x.shape, dtype or x.dtype, device=x.device),
    aten.new_empty.default: lambda x, size, dtype=None, **_: _empty(size, dtype or x.dtype, device=x.device),
    **{each: _shift(aten.bitwise_left_shift.Tensor) for each in (aten.__lshift__.Tensor, aten.__lshift__.Scalar)},
    **{each: _shift(aten.bitwise_right_shift.Tensor) for each in (aten.__rshift__.Tensor, aten.__rshift__.Scalar)},
    aten.constant_pad_nd.default: _constant_pad,
    aten.roll.default: _roll,
    aten.where.self: _where,
    aten.select_scatter.default: _select_scatter,
    aten.slice_scatter.default: _slice_scatter,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.split.Tensor: _split,
    aten.unbind.int: _unbind,
    aten._efficientzerotensor.default: lambda size, **options: torch.zeros(size, dtype=options.get("dtype")),
}
