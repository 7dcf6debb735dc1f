"""Max pooling in two and three dimensions whose gradient needs no scatter, hence deterministic on every backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import inf, prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.composites.base import composite, differentiable

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
    found = [([dy, largest(x, kernel, stride, padding, dilation)], torch.zeros([], dtype=torch.int32, device=x.device))]
    for dim, (size, k, *window) in enumerate(zip(x.shape[2:], kernel, stride, padding, dilation, strict=True), 2):
        # Below zero also if only one dimension lies outside.
        found = [
            (covering, place.unsqueeze(-1) * k + torch.where(offset < 0, -prod(kernel), offset))
            for both, place in found
            for covering, offset in windows_over(both, dim, size, k, *window)
        ]
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for (slope, taken), place in found:
        total = total + torch.where(taken == place, slope.float(), 0.0)
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


def windows_over(
    tensors: Sequence[Tensor], dim: int, size: int, kernel: int, stride: int, padding: int, dilation: int = 1
) -> Iterator[tuple[list[Tensor], Tensor]]:
    """The windows that may lie over each place of a dimension of `size` elements, the first ones first.

    tensors: an element for each window, along `dim`. Yields them with an element for each place, that of the window,
    zero beyond the first and the last; and the position of the place in it, int32 [size], -1 where it is not over it.
    """
    rows, device = -(-(size + padding) // stride), tensors[0].device
    # As the second index of an array: torch-mlir divides integers as floats.
    beyond = torch.arange(stride, device=device).expand(rows, stride).flatten().narrow(0, padding, size)
    for back in reversed(range(-(-(dilation * (kernel - 1) + 1) // stride))):
        offset = torch.full([size], -1, dtype=torch.int32, device=device)
        for at in range(kernel):
            offset = torch.where(beyond + back * stride == at * dilation, at, offset)
        yield [_repeated(each, dim, back, stride, rows).narrow(dim, padding, size) for each in tensors], offset


def _repeated(x: Tensor, dim: int, back: int, stride: int, rows: int) -> Tensor:
    """Each element of a dimension `stride` times, behind `back` zeros as often: of so many in all, zeros at the end."""
    edges = [0, 0] * (x.dim() - 1 - dim) + [back, max(0, rows - back - x.shape[dim])]
    x = functional.pad(x, edges).narrow(dim, 0, rows).unsqueeze(dim + 1)
    return x.expand([stride if i == dim + 1 else length for i, length in enumerate(x.shape)]).flatten(dim, dim + 1)


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


def _setup_again(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, x, *ctx.window = inputs
    ctx.save_for_backward(x)


def _backward_again(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    """Of each window, the element at the place of the largest."""
    (x,) = ctx.saved_tensors
    taken = largest(x, *ctx.window)
    total, *others = _windows(gradient, *ctx.window)
    for place, window in enumerate(others, 1):
        total = torch.where(taken == place, window, total)
    return total, None, None, None, None, None


differentiable("max_pool2d", _setup, _backward_2d, is_linear=True)
differentiable("max_pool3d", _setup, _backward_3d, is_linear=True)
differentiable("max_pool2d_backward", _setup_again, _backward_again, is_linear=True)
differentiable("max_pool3d_backward", _setup_again, _backward_again, is_linear=True)
