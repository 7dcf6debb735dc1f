"""Nearest-neighbour upsampling, dimension by dimension, whose gradient needs no scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Up to this height plus width PyTorch keeps or doubles the size of an image exactly, whatever the scale; beyond, only
# with channels last, if there are more than three.
_SMALL = 128


def nearest(x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None, offset: float) -> Tensor:
    """The meaning of `aten.upsample_nearest*` (offset 0) and `aten._upsample_nearest_exact*` (offset 0.5).

    `size` of the result or `scales`, one per dimension after the first two; `scales` takes precedence.
    """
    lengths = x.shape[2:]
    if size is None:
        size = [int(length * scale) for length, scale in zip(lengths, scales or (), strict=True)]
    whole = offset == 0.0 and _is_exact(x, size)
    for number, (length, wanted) in enumerate(zip(lengths, size, strict=True)):
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
