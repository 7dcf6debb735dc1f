"""Upsampling, dimension by dimension: nearest neighbours, whose gradient needs no scatter, and by polynomials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.decompositions.functions import NARROW
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten
# Of each dimension, where it is given.
Scales = Sequence[float | None] | None
# Of the cubic convolution through which PyTorch interpolates (Keys, 1981).
CUBIC = -0.75
# The same with antialiasing, as in Pillow.
_SMOOTH_CUBIC = -0.5
# Up to this height plus width PyTorch keeps or doubles the size of an image exactly, whatever the scale; beyond, only
# with channels last, if there are more than three.
_SMALL = 128


@rule(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
def _nearest(random: Randomness, x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
    return nearest(x, size, scales, offset=0.0)


@rule(aten._upsample_nearest_exact1d.vec, aten._upsample_nearest_exact2d.vec, aten._upsample_nearest_exact3d.vec)
def _nearest_exact(random: Randomness, x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None) -> Any:
    return nearest(x, size, scales, offset=0.5)


@rule(aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec)
def _linear(random: Randomness, x: Tensor, size: Any, aligned: bool, scales: Sequence[float] | None) -> Tensor:
    return _interpolated(x, size, aligned, scales, cubic=False)


@rule(aten.upsample_bicubic2d.vec)
def _bicubic(random: Randomness, x: Tensor, size: Any, aligned: bool, scales: Sequence[float] | None) -> Tensor:
    y = _interpolated(x, size, aligned, scales, cubic=True)
    # Where an image keeps its size, PyTorch interpolates it by the scale, but its gradient is that of a copy.
    return _GradientOfFirst.apply(x, y) if y.shape == x.shape else y


class _GradientOfFirst(torch.autograd.Function):
    """The second tensor, whose gradient is that of the first."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        return grad_outputs[0], None


def _interpolated(x: Tensor, size: Any, aligned: bool, scales: Sequence[float] | None, cubic: bool) -> Tensor:
    wide, wanted = x.float() if x.dtype in NARROW else x, _wanted(x, size, scales)
    for dim in reversed(range(2, x.dim())):
        length, count = x.shape[dim], wanted[dim - 2]
        # PyTorch copies a dimension that keeps its length, whatever the scale, but not for cubics.
        if length == count and not cubic:
            continue
        ratio = _ratio(length, count, aligned, scales[dim - 2] if scales else None)
        place = torch.arange(count, device=x.device, dtype=torch.float32)
        place = place * ratio if aligned else (place + 0.5) * ratio - 0.5
        taps = _cubic_taps(place) if cubic else _linear_taps(place.clamp(min=0.0))
        row = wide.movedim(dim, -1)
        parts = [_Taken.apply(row, index.clamp(0, length - 1)) * weight for index, weight in taps]
        wide = sum(parts[1:], parts[0]).movedim(-1, dim)
    return wide.to(x.dtype)


@rule(aten._upsample_bilinear2d_aa.default)
def _smooth_linear_2d(random: Randomness, x: Tensor, size: Any, aligned: bool, *scales: float | None) -> Tensor:
    return _smooth_linear(random, x, size, aligned, scales)


@rule(aten._upsample_bilinear2d_aa.vec)
def _smooth_linear(random: Randomness, x: Tensor, size: Any, aligned: bool, scales: Scales) -> Tensor:
    return _smoothed(x, size, aligned, scales, lambda t: (1.0 - t).clamp(min=0.0), width=1.0)


@rule(aten._upsample_bicubic2d_aa.vec)
def _smooth_cubic(random: Randomness, x: Tensor, size: Any, aligned: bool, scales: Scales) -> Tensor:
    return _smoothed(x, size, aligned, scales, lambda t: cubic(t, _SMOOTH_CUBIC), width=2.0)


def _smoothed(
    x: Tensor,
    size: Any,
    aligned: bool,
    scales: Scales,
    weigh: Callable[[Tensor], Tensor],
    width: float,
) -> Tensor:
    """With `antialias=True`: a smaller image averages all elements under the polynomial, which is as wide as one of its
    own.
    """
    wide, wanted = x.float() if x.dtype in NARROW else x, _wanted(x, size, scales)
    if wanted[1] == 1 < wanted[0] != x.shape[2]:
        fact = "resizes an image to a width of one without aliases, where eager takes one row for all"
        raise ImportFailure(None, fact, hint="transpose it, and resize its height to one")
    for dim in (3, 2):
        length, count = x.shape[dim], wanted[dim - 2]
        ratio = _ratio(length, count, aligned, scales[dim - 2] if scales else None)
        seen, weight = _windows(length, count, ratio, weigh, width)
        # Infinity and NaN are not multiplied where they are not seen.
        smooth = torch.where(seen, wide.movedim(dim, -1).unsqueeze(-2) * weight, 0.0).sum(-1).movedim(-1, dim)
        # PyTorch copies a dimension that keeps its length, but its gradient is that of the scale.
        wide = _GradientOfFirst.apply(smooth, wide) if length == count else smooth
    return wide.to(x.dtype)


def _wanted(x: Tensor, size: Sequence[int] | None, scales: Sequence[Any] | None) -> Sequence[int]:
    """The sizes of the new image; without them every scale is given."""
    return size or [int(length * scale) for length, scale in zip(x.shape[2:], scales or (), strict=True)]


def _ratio(length: int, count: int, aligned: bool, scale: float | None) -> float:
    """How many old elements lie between two new ones."""
    if aligned:
        return (length - 1) / (count - 1) if count > 1 else 0.0
    return 1.0 / scale if scale else length / count


def _windows(
    length: int, count: int, ratio: float, weigh: Callable[[Tensor], Tensor], width: float
) -> tuple[Tensor, Tensor]:
    """[count, length]: which old elements each new one sees, and what they count."""
    reach = max(ratio, 1.0)
    centre = ratio * (torch.arange(count, dtype=torch.float32) + 0.5).unsqueeze(1)
    place = torch.arange(length)
    first, end = (centre - width * reach + 0.5).long(), (centre + width * reach + 0.5).long()
    seen = (first <= place) & (place < end)
    weight = torch.where(seen, weigh((place - centre + 0.5).abs() / reach), 0.0)
    return seen, weight / weight.sum(1, keepdim=True)


def _linear_taps(place: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Which elements a place lies between, and what each counts."""
    first = torch.floor(place)
    return [(first.long(), 1.0 - (place - first)), (first.long() + 1, place - first)]


def _cubic_taps(place: Tensor) -> list[tuple[Tensor, Tensor]]:
    first = torch.floor(place)
    rest = place - first
    weights = [cubic(distance, CUBIC) for distance in (rest + 1.0, rest, 1.0 - rest, 2.0 - rest)]
    return [(first.long() + number - 1, weight) for number, weight in enumerate(weights)]


def cubic(t: Tensor, a: float) -> Tensor:
    """What an element at distance `t` counts in the cubic convolution of parameter `a`."""
    near = ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    far = ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a
    return torch.where(t <= 1.0, near, torch.where(t < 2.0, far, 0.0))


def nearest(x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None, offset: float) -> Tensor:
    """The meaning of `aten.upsample_nearest*` (offset 0) and `aten._upsample_nearest_exact*` (offset 0.5).

    `size` of the result or `scales`, one per dimension after the first two; `scales` takes precedence.
    """
    size = _wanted(x, size, scales)
    whole = offset == 0.0 and _is_exact(x, size)
    for number, (length, wanted) in enumerate(zip(x.shape[2:], size, strict=True)):
        exact = whole and wanted in (length, 2 * length)
        ratio = 1.0 / scales[number] if scales and not exact else length / wanted
        dim = number + 2
        x = _stretched(x.movedim(dim, -1), wanted, ratio, offset).movedim(-1, dim)
    return x


def _is_exact(x: Tensor, size: Sequence[int]) -> bool:
    if x.dim() != 4:
        return False
    return sum(size) <= _SMALL or (x.shape[1] > 3 and x.is_contiguous(memory_format=torch.channels_last))


def _stretched(x: Tensor, length: int, ratio: float, offset: float) -> Tensor:
    """`x` with `length` elements in its last dimension, of which element i is the old element (i + offset) · ratio."""
    # In f32, as PyTorch computes it: the last bit decides which element is nearest.
    places = ((np.arange(length, dtype=np.float32) + np.float32(offset)) * np.float32(ratio)).astype(np.int64)
    times, rest = divmod(length, x.shape[-1])
    if rest == 0 and np.array_equal(places, np.arange(length) // times):
        return x.unsqueeze(-1).expand(*x.shape, times).flatten(-2)
    place = (torch.arange(length, device=x.device, dtype=torch.float32) + offset) * ratio
    return _Taken.apply(x, place.to(torch.int64).clamp(max=x.shape[-1] - 1))


class _Taken(torch.autograd.Function):
    """x [.., N], index [M] → x[.., index]; the gradient of an element is the sum over all places that read it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.length = x.shape[-1]
        ctx.save_for_backward(index)
        return x.index_select(-1, index)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (dy,) = grad_outputs
        (index,) = ctx.saved_tensors
        taken = torch.arange(ctx.length, device=dy.device).unsqueeze(1) == index
        return torch.where(taken, dy.unsqueeze(-2), 0.0).sum(-1), None
