"""Nearest-neighbour upsampling, dimension by dimension, whose gradient needs no scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def nearest(x: Tensor, size: Sequence[int] | None, scales: Sequence[float] | None, offset: float) -> Tensor:
    """The meaning of `aten.upsample_nearest*` (offset 0) and `aten._upsample_nearest_exact*` (offset 0.5).

    `size` of the result or `scales`, one for each dimension behind the first two; `scales` wins where both are given.
    """
    for number in range(x.dim() - 2):
        dim = number + 2
        length = x.shape[dim]
        wanted = int(length * scales[number]) if size is None and scales else int(size[number])  # pyright: ignore
        # Of images PyTorch keeps or doubles the size exactly, whatever the scale is.
        exact = x.dim() == 4 and offset == 0.0 and wanted in (length, 2 * length)
        ratio = 1.0 / scales[number] if scales and not exact else length / wanted
        x = _stretched(x.movedim(dim, -1), wanted, ratio, offset).movedim(-1, dim)
    return x


def _stretched(x: Tensor, length: int, ratio: float, offset: float) -> Tensor:
    """`x` with `length` elements in its last dimension, of which element i is the old element (i + offset) · ratio."""
    times, rest = divmod(length, x.shape[-1])
    if rest == 0 and ratio * times == 1.0:
        return x.unsqueeze(-1).expand(*x.shape, times).flatten(-2)
    # In f32, as PyTorch computes it: the last bit decides which element is nearest.
    place = (torch.arange(length, device=x.device, dtype=torch.float32) + offset) * ratio
    return _Taken.apply(x, place.to(torch.int64).clamp(max=x.shape[-1] - 1))


class _Taken(torch.autograd.Function):
    """x [.., N], index [M] → x[.., index]; the gradient of an element is the sum over all places that took it."""

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
