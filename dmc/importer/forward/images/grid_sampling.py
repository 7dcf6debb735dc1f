"""Samples of images and volumes at computed places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.images.upsampling import CUBIC, cubic
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten
# A whole place in one dimension, and what the element there counts.
Tap = tuple[Tensor, Tensor]
_NEAREST, _BICUBIC = 1, 2
_BORDER, _REFLECTION = 1, 2


@rule(aten.grid_sampler_3d.default, aten.grid_sampler_2d.default, aten.grid_sampler.default)
def _grid_sampler(random: Randomness, x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Any:
    """x [N, C, …, H, W] at the places grid [N, …, 2 or 3], of which the last coordinate comes first."""
    sizes = x.shape[2:]
    given = grid.flip(-1).unbind(-1)
    places = [_scaled(each, size, align_corners) for each, size in zip(given, sizes, strict=True)]
    pads = [partial(_padded, size=size, padding=padding, align_corners=align_corners) for size in sizes]
    if mode == _BICUBIC:
        # Each tap is padded, not the place.
        taps = [_cubic_taps(place, pad) for place, pad in zip(places, pads, strict=True)]
        return _weighed(x, taps)
    places = [pad(place) for place, pad in zip(places, pads, strict=True)]
    if mode == _NEAREST:
        # The gradient of the places is zero, not absent.
        ends = [each.round() for each in places]
        zero = torch.stack([torch.where(end.isfinite(), end - end.detach(), 0.0) for end in ends]).sum(0)
        return _at(x, ends) + zero.unsqueeze(1)
    return _weighed(x, [_linear_taps(place) for place in places])


def _weighed(x: Tensor, taps: Sequence[Sequence[Tap]]) -> Tensor:
    """The sum over one tap of each dimension, in every combination."""
    every = [
        _at(x, [end for end, _ in each]) * math.prod((weight for _, weight in each[1:]), start=each[0][1]).unsqueeze(1)
        for each in itertools.product(*taps)
    ]
    return sum(every[1:], every[0])


def _linear_taps(place: Tensor) -> list[Tap]:
    low = place.detach().floor()
    return [(low + step, 1.0 - (place - (low + step)).abs()) for step in (0.0, 1.0)]


def _cubic_taps(place: Tensor, pad: Callable[[Tensor], Tensor]) -> list[Tap]:
    low = place.detach().floor()
    steps = (-1.0, 0.0, 1.0, 2.0)
    return [(pad(low + step), cubic((place - (low + step)).abs(), CUBIC)) for step in steps]


def _scaled(given: Tensor, size: int, align_corners: bool) -> Tensor:
    """From [-1, 1] to [0, size - 1]; -1 and 1 are the centres of the outer elements, or with them their edges."""
    return (given + 1.0) / 2.0 * (size - 1) if align_corners else ((given + 1.0) * size - 1.0) / 2.0


def _padded(place: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
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
