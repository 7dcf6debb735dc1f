"""What the text of a program calls: its leaves, and helpers that keep its meaning defined."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

__all__ = ["broadcast", "plain", "spread", "transposed", "untied", "weighed"]


def plain(values: Sequence[float], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor that lies in memory row by row."""
    return torch.tensor(values, dtype=dtype).reshape(tuple(shape))


def transposed(values: Sequence[float], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """The same with its dimensions in reverse order in memory."""
    whole = plain(values, shape, dtype)
    back = list(range(whole.dim()))[::-1]
    return whole.permute(back).contiguous().permute(back)


def spread(values: Sequence[float], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """The same with another element behind each, in memory."""
    whole = plain(values, shape, dtype)
    return torch.stack([whole, torch.ones_like(whole)], -1)[..., 0]


def broadcast(values: Sequence[float], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Its first row again and again: every row is the same memory."""
    row = plain(values[: prod(shape[1:])], shape[1:], dtype)
    return row.expand(*shape)


def weighed(value: Tensor) -> Tensor:
    """The sum of a tensor, in which neighbours have different weights."""
    wide = value.to(torch.promote_types(value.dtype, torch.float32))
    return (wide * (torch.arange(value.numel()) % 5 + 1).reshape(value.shape)).sum()


def untied(value: Tensor) -> Tensor:
    """`value` with equal elements told apart: which of equal elements a sort puts first is left open by PyTorch."""
    finite = value.nan_to_num(0.0, 64.0, -64.0).clamp(-64, 64)
    return finite * 256 + torch.arange(value.numel()).reshape(value.shape)
