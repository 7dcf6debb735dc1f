"""Max pooling in two and three dimensions whose gradient needs no scatter, hence deterministic on every backend."""

from __future__ import annotations

from itertools import product
from math import inf
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.composites.base import composite, differentiable, differentiable_by_definition

_WINDOW = "int[] kernel, int[] stride, int[] padding, int[] dilation"


@composite(f"max_pool2d(Tensor x, {_WINDOW}) -> Tensor")
def max_pool2d(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> Tensor:
    """The largest element of each window of x [N, C, H, W]: [N, C, OH, OW], dtype of `x`; NaN where the window contains
    one."""
    best, *others = _windows(x, kernel, stride, padding, dilation)
    for other in others:
        best = torch.maximum(best, other)
    return best


@composite(f"max_pool2d_backward(Tensor dy, Tensor x, {_WINDOW}) -> Tensor")
def max_pool2d_backward(
    dy: Tensor, x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> Tensor:
    """The gradient for `x`: each dy goes to the element of its window that PyTorch considers the largest."""
    sizes = [size + 2 * pad for size, pad in zip(x.shape[2:], padding, strict=True)]
    total = torch.zeros([*x.shape[:2], *sizes], dtype=torch.float32, device=x.device)
    taken = largest(x, kernel, stride, padding, dilation)
    for place, offsets in enumerate(_offsets(kernel, dilation)):
        spread = spread_out(torch.where(taken == place, dy.float(), 0.0), stride)
        lengths = zip(sizes, offsets, spread.shape[2:], strict=True)
        edges = [(offset, size - offset - length) for size, offset, length in lengths]
        total = total + functional.pad(spread, [each for edge in reversed(edges) for each in edge])
    for dim, (size, pad) in enumerate(zip(x.shape[2:], padding, strict=True), 2):
        total = total.narrow(dim, pad, size)
    return total.to(x.dtype)


@composite(f"max_pool3d(Tensor x, {_WINDOW}) -> Tensor")
def max_pool3d(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> Tensor:
    """As `max_pool2d`, of x [N, C, D, H, W]."""
    return max_pool2d(x, kernel, stride, padding, dilation)


@composite(f"max_pool3d_backward(Tensor dy, Tensor x, {_WINDOW}) -> Tensor")
def max_pool3d_backward(
    dy: Tensor, x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> Tensor:
    """As `max_pool2d_backward`."""
    return max_pool2d_backward(dy, x, kernel, stride, padding, dilation)


def largest(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> Tensor:
    """The position of the largest element in each window, int32 [N, C, *out]: the first largest, or the last NaN."""
    inside = _windows(torch.zeros([1, 1, *x.shape[2:]], device=x.device), kernel, stride, padding, dilation)
    first, *others = _windows(x, kernel, stride, padding, dilation)
    best, taken = first, torch.where(inside[0] == 0.0, 0, -1).to(torch.int32).expand(first.shape)
    for place, window in enumerate(others, 1):
        # Padding equals the smallest value, but is never selected.
        better = (window > best) | (window != window) | ((taken < 0) & (inside[place] == 0.0))
        best, taken = torch.where(better, window, best), torch.where(better, place, taken)
    return taken


def spread_out(x: Tensor, stride: list[int]) -> Tensor:
    """`x` with stride - 1 zeros between neighbours in its dimensions after the first two."""
    apart = [each for size in x.shape[2:] for each in (size, 1)]
    edges = [each for step in reversed(stride) for each in (0, step - 1, 0, 0)]
    grid = functional.pad(x.reshape([*x.shape[:2], *apart]), edges[:-2])
    whole = grid.reshape([*x.shape[:2], *(size * step for size, step in zip(x.shape[2:], stride, strict=True))])
    ends = zip(x.shape[2:], stride, strict=True)
    return whole[(slice(None), slice(None), *(slice((size - 1) * step + 1) for size, step in ends))]


def _windows(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> list[Tensor]:
    """One strided slice [N, C, *out] of the padded input per position in the window, row by row."""
    padded = functional.pad(x, [each for pad in reversed(padding) for each in (pad, pad)], value=-inf)
    spans = [step * (length - 1) + 1 for step, length in zip(dilation, kernel, strict=True)]
    sizes = [(size - span) // step + 1 for size, span, step in zip(padded.shape[2:], spans, stride, strict=True)]
    slices: list[Tensor] = []
    for offsets in _offsets(kernel, dilation):
        places = zip(offsets, sizes, stride, strict=True)
        along = (slice(first, first + (size - 1) * step + 1, step) for first, size, step in places)
        slices.append(padded[(slice(None), slice(None), *along)])
    return slices


def _offsets(kernel: list[int], dilation: list[int]) -> list[tuple[int, ...]]:
    """The positions in a window, row by row."""
    return list(product(*(range(0, length * step, step) for length, step in zip(kernel, dilation, strict=True))))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *ctx.window = inputs
    ctx.save_for_backward(x)


def _backward_2d(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    (x,) = ctx.saved_tensors
    return torch.ops.dmc.max_pool2d_backward(dy, x, *ctx.window), None, None, None, None


def _backward_3d(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    (x,) = ctx.saved_tensors
    return torch.ops.dmc.max_pool3d_backward(dy, x, *ctx.window), None, None, None, None


differentiable("max_pool2d", _setup, _backward_2d, is_linear=True)
differentiable("max_pool3d", _setup, _backward_3d, is_linear=True)
differentiable_by_definition("max_pool2d_backward")
differentiable_by_definition("max_pool3d_backward")
