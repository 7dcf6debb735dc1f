"""Scans: running sums, products, maxima and the like along a dimension.

Sums compare positions, so that their order is that of a reduction; the others double the distance that an element looks
back (Hillis and Steele, 1986).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.decompositions.functions import NARROW

aten = torch.ops.aten


def _cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    dtype = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    if x.dim() == 0:
        return x.to(dtype)
    moved = x.to(dtype).movedim(dim, -1)
    position = torch.arange(moved.shape[-1], device=x.device)
    earlier = position.unsqueeze(0) <= position.unsqueeze(1)
    return torch.where(earlier, moved.unsqueeze(-2), 0).sum(-1, dtype=dtype).movedim(-1, dim)


def _cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    dtype = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    if x.dim() == 0:
        return x.to(dtype)
    row = x.to(torch.float32 if dtype in NARROW else dtype).movedim(dim, -1)
    for distance in _distances(row):
        row = row * _earlier(row, distance, 1)
    return row.to(dtype).movedim(-1, dim)


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    if x.dim() == 0:
        return x.clone()
    row = x.to(torch.float32 if x.dtype in NARROW else x.dtype).movedim(dim, -1)
    for distance in _distances(row):
        row = torch.logaddexp(row, _earlier(row, distance, -inf))
    return row.to(x.dtype).movedim(-1, dim)


def _extreme(is_before: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
    """The running extreme and where it is: the last of equal ones, or the last NaN."""

    def decomposed(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if x.dim() == 0:
            return x.clone(), torch.zeros([], dtype=torch.int64, device=x.device)
        row = x.movedim(dim, -1)
        place = torch.arange(row.shape[-1], device=x.device).expand(row.shape)
        for distance in _distances(row):
            earlier, known = _earlier(row, distance, 0), _earlier(place, distance, -1)
            # NaN stays until another one comes.
            better = (known >= 0) & (is_before(earlier, row) | (earlier != earlier)) & ~(row != row)
            row, place = torch.where(better, earlier, row), torch.where(better, known, place)
        return row.movedim(-1, dim), place.movedim(-1, dim)

    return decomposed


def _distances(row: Tensor) -> list[int]:
    return [1 << power for power in range((row.shape[-1] - 1).bit_length())] if row.shape[-1] else []


def _earlier(row: Tensor, distance: int, value: float) -> Tensor:
    """The elements of a row `distance` places before; `value` where there is none."""
    return functional.pad(row[..., : row.shape[-1] - distance], [distance, 0], value=value)


OWN: dict[Any, Callable[..., Any]] = {
    aten.cumsum.default: _cumsum,
    aten.cumprod.default: _cumprod,
    aten.logcumsumexp.default: _logcumsumexp,
    aten.cummax.default: _extreme(torch.gt),
    aten.cummin.default: _extreme(torch.lt),
}
