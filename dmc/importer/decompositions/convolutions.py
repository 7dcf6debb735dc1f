"""Convolutions with groups, transposed ones, and the gradients of both: as plain convolutions and matrix products.

torch-mlir lowers plain convolutions, grouped ones of two dimensions, and the gradient of the former.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.decompositions.functions import NARROW

aten = torch.ops.aten
Sizes = Sequence[int]


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Any:
    rank = weight.dim() - 2
    given = (stride, padding, dilation, output_padding)
    stride, padding, dilation, output_padding = (_of_each_dimension(each, rank) for each in given)
    whole = (bias, stride, padding, dilation, transposed, output_padding, groups)
    if x.dim() == rank + 1:
        return aten.convolution.default(x.unsqueeze(0), weight, *whole).squeeze(0)
    if any(len(each) != rank for each in given):
        return aten.convolution.default(x, weight, *whole)
    if transposed:
        y = _transposed(x, weight, stride, padding, dilation, output_padding, groups)
        return y if bias is None else y + bias.view(-1, *[1] * rank)
    if groups == 1 or rank == 2:
        return NotImplemented
    inputs, filters = x.chunk(groups, 1), weight.chunk(groups, 0)
    parts = [_plain(each, own, stride, padding, dilation) for each, own in zip(inputs, filters, strict=True)]
    y = torch.cat(parts, 1)
    return y if bias is None else y + bias.view(-1, *[1] * rank)


def _of_each_dimension(numbers: Sizes, rank: int) -> list[int]:
    """One number may be given for all dimensions; torch-mlir reads one for each, wherever they lie in memory."""
    return [numbers[dim % len(numbers)] for dim in range(rank)]


def _plain(x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int = 1) -> Tensor:
    none = [0] * len(stride)
    return aten.convolution.default(x, weight, None, stride, padding, dilation, False, none, groups)


def _transposed(
    x: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, output_padding: Sizes, groups: int
) -> Tensor:
    """x [N, C, *], weight [C, O / groups, *kernel] → [N, O, *]: a convolution of `x` with zeros in between."""
    kernel = weight.shape[2:]
    spans = [step * (length - 1) for step, length in zip(dilation, kernel, strict=True)]
    edges = [(span - p, span - p + out) for span, p, out in zip(spans, padding, output_padding, strict=True)]
    spread = _spread(x, stride)
    # A negative edge cuts elements off.
    spread = aten.constant_pad_nd.default(spread, [each for edge in reversed(edges) for each in edge])
    rows, columns = weight.shape[0] // groups, weight.shape[1]
    apart = weight.reshape(groups, rows, columns, *kernel).transpose(1, 2)
    filters = apart.reshape(groups * columns, rows, *kernel).flip(list(range(2, weight.dim())))
    ones, none = [1] * len(kernel), [0] * len(kernel)
    return _plain(spread, filters, ones, none, dilation, groups)


def _spread(x: Tensor, stride: Sizes) -> Tensor:
    """`x` with stride - 1 zeros between neighbours in its dimensions after the first two."""
    for dim, step in enumerate(stride, 2):
        if step > 1:
            row = x.movedim(dim, -1)
            apart = functional.pad(row.unsqueeze(-1), [0, step - 1]).flatten(-2)
            x = apart.narrow(-1, 0, (row.shape[-1] - 1) * step + 1).movedim(-1, dim)
    return x


def _convolution_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    rank = weight.dim() - 2
    given = (stride, padding, dilation, output_padding)
    stride, padding, dilation, output_padding = (_of_each_dimension(each, rank) for each in given)
    window = (stride, padding, dilation)
    wants_x, wants_weight, wants_bias = wanted
    # Apart from the rest of the gradient, that of the bias is a sum like any other.
    dbias = dy.sum([0, *range(2, dy.dim())]) if wants_bias else None
    # Of three dimensions torch-mlir crashes on some of size one.
    if groups == 1 and not transposed and rank < 3:
        skips = wants_weight and any(step > 1 for step in stride)
        if not wants_bias and not skips and all(len(each) == rank for each in given):
            return NotImplemented
        options = (*window, transposed, output_padding, groups, [wants_x, wants_weight and not skips, False])
        dx, dweight, _ = aten.convolution_backward.default(dy, x, weight, None, *options)
        return dx, _strided_gradient(x, dy, weight, *window) if skips else dweight, dbias
    if transposed:
        # Padding of the result may have made room for another window.
        sizes = (slice(None), slice(None), *map(slice, x.shape[2:]))
        dx = _plain(dy, weight, *window, groups)[sizes] if wants_x else None
        dweight = _filter_gradient(dy, x, weight, *window, groups) if wants_weight else None
        return dx, dweight, dbias
    dx = _transposed(dy, weight, *window, _left_over(x, dy, weight, *window), groups) if wants_x else None
    dweight = _filter_gradient(x, dy, weight, *window, groups) if wants_weight else None
    return dx, dweight, dbias


def _left_over(x: Tensor, y: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes) -> list[int]:
    """How many elements of `x` lie beyond the last window, in each dimension."""
    given = zip(x.shape[2:], y.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    return [length + 2 * p - d * (k - 1) - 1 - (count - 1) * s for length, count, k, s, p, d in given]


def _strided_gradient(x: Tensor, dy: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes) -> Tensor:
    """The gradient of the filters [O, C, *kernel] of a convolution x [N, C, *] → [N, O, *]: itself a convolution, of
    what the windows read, by the gradient with gaps. torch-mlir would compute it for each of the batch.
    """
    ends = zip(_left_over(x, dy, weight, stride, padding, dilation), padding, strict=True)
    edges = [(p, p - left) for left, p in ends]
    read = aten.constant_pad_nd.default(x, [each for edge in reversed(edges) for each in edge])
    none = [0] * len(stride)
    return _plain(read.transpose(0, 1), dy.transpose(0, 1), dilation, none, stride).transpose(0, 1)


def _filter_gradient(
    x: Tensor, dy: Tensor, weight: Tensor, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Tensor:
    """The gradient of the filters [O, C / groups, *kernel] of a plain convolution x [N, C, *] → [N, O, *].

    One element of every filter at a time: products of the gradient with the elements that it was multiplied by.
    """
    kernel, counts = weight.shape[2:], dy.shape[2:]
    ends = [
        max(0, (n - 1) * s + d * (k - 1) + 1 - length - p)
        for n, s, d, k, length, p in zip(counts, stride, dilation, kernel, x.shape[2:], padding, strict=True)
    ]
    edges = [each for p, end in zip(reversed(padding), reversed(ends), strict=True) for each in (p, end)]
    wide = torch.float32 if x.dtype in NARROW else x.dtype
    padded = functional.pad(x, edges)
    slopes = _by_group(dy, groups)
    columns: list[Tensor] = []
    for place in product(*map(range, kernel)):
        given = zip(place, counts, stride, dilation, strict=True)
        along = (slice(i * d, i * d + (n - 1) * s + 1, s) for i, n, s, d in given)
        read = _by_group(padded[(slice(None), slice(None), *along)], groups)
        if slopes.shape[1] == read.shape[1] == 1:
            columns.append((slopes.to(wide) * read).sum(2, keepdim=True).to(x.dtype))
        else:
            columns.append(slopes @ read.transpose(1, 2))
    return torch.stack(columns, -1).reshape(weight.shape)


def _by_group(x: Tensor, groups: int) -> Tensor:
    """x [N, C, *] → [groups, C / groups, N · *]"""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, -1).permute(1, 2, 0, 3).flatten(2)


OWN: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
}
