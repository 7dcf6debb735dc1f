"""Two-dimensional max pooling whose gradient needs no scatter, hence deterministic on every backend."""

from __future__ import annotations

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
    height, width = x.shape[2] + 2 * padding[0], x.shape[3] + 2 * padding[1]
    total = torch.zeros([*x.shape[:2], height, width], dtype=torch.float32, device=x.device)
    offsets = [(i * dilation[0], j * dilation[1]) for i in range(kernel[0]) for j in range(kernel[1])]
    taken = _largest(x, kernel, stride, padding, dilation)
    for place, (row, column) in enumerate(offsets):
        spread = _spread(torch.where(taken == place, dy.float(), 0.0), stride)
        after = (height - row - spread.shape[2], width - column - spread.shape[3])
        total = total + functional.pad(spread, [column, after[1], row, after[0]])
    inner = total[:, :, padding[0] : height - padding[0], padding[1] : width - padding[1]]
    return inner.to(x.dtype)


def _largest(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> Tensor:
    """The position of the largest element in each window, int32 [N, C, OH, OW]: the first largest, or the last NaN."""
    inside = _windows(torch.zeros([1, 1, *x.shape[2:]], device=x.device), kernel, stride, padding, dilation)
    first, *others = _windows(x, kernel, stride, padding, dilation)
    best, taken = first, torch.where(inside[0] == 0.0, 0, -1).to(torch.int32).expand(first.shape)
    for place, window in enumerate(others, 1):
        # Padding equals the smallest value, but is never selected.
        better = (window > best) | (window != window) | ((taken < 0) & (inside[place] == 0.0))
        best, taken = torch.where(better, window, best), torch.where(better, place, taken)
    return taken


def _windows(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> list[Tensor]:
    """One strided slice [N, C, OH, OW] of the padded input per position in the window, row by row."""
    padded = functional.pad(x, [padding[1], padding[1], padding[0], padding[0]], value=float("-inf"))
    rows = (padded.shape[2] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    columns = (padded.shape[3] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    slices: list[Tensor] = []
    for row in range(0, kernel[0] * dilation[0], dilation[0]):
        for column in range(0, kernel[1] * dilation[1], dilation[1]):
            down = slice(row, row + (rows - 1) * stride[0] + 1, stride[0])
            across = slice(column, column + (columns - 1) * stride[1] + 1, stride[1])
            slices.append(padded[:, :, down, across])
    return slices


def _spread(x: Tensor, stride: list[int]) -> Tensor:
    """`x` with stride - 1 zeros between neighbours in its last two dimensions."""
    batch, channels, height, width = x.shape
    grid = functional.pad(x.view(batch, channels, height, 1, width, 1), [0, stride[1] - 1, 0, 0, 0, stride[0] - 1])
    whole = grid.reshape(batch, channels, height * stride[0], width * stride[1])
    return whole[:, :, : (height - 1) * stride[0] + 1, : (width - 1) * stride[1] + 1]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *ctx.window = inputs
    ctx.save_for_backward(x)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    (x,) = ctx.saved_tensors
    return torch.ops.dmc.max_pool2d_backward(dy, x, *ctx.window), None, None, None, None


differentiable("max_pool2d", _setup, _backward)
