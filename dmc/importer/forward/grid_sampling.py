"""Samples of volumes at computed places."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.randomness import Randomness
from dmc.importer.forward.registry import DECLINE, rule

_NEAREST = 1
_BORDER, _REFLECTION = 1, 2


@rule(torch.ops.aten.grid_sampler_3d.default)
def _grid_sampler_3d(random: Randomness, x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    """x [N, C, D, H, W] at the places grid [N, …, 3], of which the last coordinate comes first."""
    sizes = x.shape[2:]
    places = [_place(grid[..., 2 - dim], sizes[dim], padding, align_corners) for dim in range(3)]
    if mode == _NEAREST:
        # The gradient of the places is zero, not absent.
        ends = [each.round() for each in places]
        zero = torch.stack([torch.where(end.isfinite(), end - end.detach(), 0.0) for end in ends]).sum(0)
        return _at(x, ends) + zero.unsqueeze(1)
    result = torch.zeros_like(_at(x, places))
    low = [each.detach().floor() for each in places]
    for corner in itertools.product((0.0, 1.0), repeat=3):
        ends = [start + step for start, step in zip(low, corner, strict=True)]
        weights = [1.0 - (place - end).abs() for place, end in zip(places, ends, strict=True)]
        result = result + _at(x, ends) * (weights[0] * weights[1] * weights[2]).unsqueeze(1)
    return result


@rule(torch.ops.aten.grid_sampler.default)
def _grid_sampler(random: Randomness, x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    return _grid_sampler_3d(random, x, grid, mode, padding, align_corners) if x.dim() == 5 else DECLINE


def _place(given: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
    """From [-1, 1] to [0, size - 1]; -1 and 1 are the centres of the outer elements, or with them their edges."""
    place = (given + 1.0) / 2.0 * (size - 1) if align_corners else ((given + 1.0) * size - 1.0) / 2.0
    if padding == _REFLECTION:
        first, last = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        place = _reflected(place, first, last - first)
    return place.clamp(0, size - 1) if padding in (_BORDER, _REFLECTION) else place


def _reflected(place: Tensor, first: float, length: float) -> Tensor:
    if length == 0.0:
        return torch.zeros_like(place)
    away = (place - first).abs()
    turns = (away / length).floor()
    rest = away - turns.detach() * length
    return first + torch.where(turns.remainder(2.0) == 0.0, rest, length - rest)


def _at(x: Tensor, ends: list[Tensor]) -> Tensor:
    """The elements of `x` at whole places [N, …], zero outside: [N, C, …]."""
    batch, channels, *sizes = x.shape
    index = torch.zeros_like(ends[0], dtype=torch.int64)
    is_inside = torch.ones_like(index, dtype=torch.bool)
    for end, size in zip(ends, sizes, strict=True):
        is_inside = is_inside & (end >= 0) & (end <= size - 1)
        index = index * size + end.detach().clamp(0, size - 1).to(torch.int64)
    flat = index.reshape(batch, 1, -1).expand(-1, channels, -1)
    values = x.reshape(batch, channels, -1).gather(2, flat).reshape(batch, channels, *index.shape[1:])
    return torch.where(is_inside.unsqueeze(1), values, 0.0).to(x.dtype)
