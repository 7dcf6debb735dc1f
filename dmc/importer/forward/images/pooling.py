"""Pooling of every kind, in one to three dimensions, made of slices, sums and `dmc.max_pool`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer import composites
from dmc.importer.composites.max_pool import largest, windows_over
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

assert composites.max_pool  # Importing the package registers the composites.
aten = torch.ops.aten


@dataclass(frozen=True)
class Window:
    """One number for each dimension that is pooled, as PyTorch names them."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil_mode: bool

    @staticmethod
    def of(
        rank: int,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> Window:
        """A single number stands for all dimensions; the stride is that of the kernel if there is none."""
        given = (kernel, stride or kernel, padding, dilation)
        sizes, steps, edges, gaps = ([int(each[i % len(each)]) for i in range(rank)] for each in given)
        return Window(sizes, steps, edges, gaps, ceil_mode)

    def with_dim(self) -> Window:
        """The same for one more dimension of one element before the others."""
        given = (self.kernel, self.stride, self.padding, self.dilation)
        kernel, stride, padding, dilation = ([new, *each] for new, each in zip((1, 1, 0, 1), given, strict=True))
        return Window(kernel, stride, padding, dilation, self.ceil_mode)

    def counts(self, lengths: Sequence[int]) -> list[int]:
        """How many windows there are along each dimension: the last one starts inside, or in the padding before."""
        found: list[int] = []
        for length, k, s, p, d in zip(lengths, self.kernel, self.stride, self.padding, self.dilation, strict=True):
            rest = length + 2 * p - d * (k - 1) - 1
            count = -(-rest // s) + 1 if self.ceil_mode else rest // s + 1
            found.append(count - 1 if self.ceil_mode and (count - 1) * s >= length + p else count)
        return found

    def ends(self, lengths: Sequence[int]) -> list[int]:
        """How many elements the last window reads beyond the padding after each dimension."""
        counts = self.counts(lengths)
        given = zip(lengths, counts, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return [max(0, (count - 1) * s + d * (k - 1) + 1 - length - 2 * p) for length, count, k, s, p, d in given]


@rule(aten.max_pool1d.default)
def _max_pool1d(random: Randomness, x: Tensor, *window: Any) -> Tensor:
    return _maximum(x, Window.of(1, *window))


@rule(aten.max_pool2d.default)
def _max_pool2d(random: Randomness, x: Tensor, *window: Any) -> Tensor:
    return _maximum(x, Window.of(2, *window))


@rule(aten.max_pool3d.default)
def _max_pool3d(random: Randomness, x: Tensor, *window: Any) -> Tensor:
    return _maximum(x, Window.of(3, *window))


@rule(aten.max_pool1d_with_indices.default)
def _max_pool1d_with_indices(random: Randomness, x: Tensor, *window: Any) -> tuple[Tensor, Tensor]:
    return _maximum_with_places(x, Window.of(1, *window))


@rule(aten.max_pool2d_with_indices.default)
def _max_pool2d_with_indices(random: Randomness, x: Tensor, *window: Any) -> tuple[Tensor, Tensor]:
    return _maximum_with_places(x, Window.of(2, *window))


@rule(aten.max_pool3d_with_indices.default)
def _max_pool3d_with_indices(random: Randomness, x: Tensor, *window: Any) -> tuple[Tensor, Tensor]:
    return _maximum_with_places(x, Window.of(3, *window))


@rule(aten.avg_pool1d.default)
def _avg_pool1d(random: Randomness, x: Tensor, *options: Any) -> Tensor:
    return _average(x, 1, *options)


@rule(aten.avg_pool2d.default)
def _avg_pool2d(random: Randomness, x: Tensor, *options: Any) -> Tensor:
    return _average(x, 2, *options)


@rule(aten.avg_pool3d.default)
def _avg_pool3d(random: Randomness, x: Tensor, *options: Any) -> Tensor:
    return _average(x, 3, *options)


@rule(aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool3d.default)
def _adaptive_avg_pool(random: Randomness, x: Tensor, counts: Sequence[int]) -> Tensor:
    wide, first = x.float(), x.dim() - len(counts)
    if not any(x.shape[dim] % count for dim, count in enumerate(counts, first)):
        for dim, count in reversed(list(enumerate(counts, first))):
            wide = wide.unflatten(dim, (count, x.shape[dim] // count))
        return wide.mean([first + 1 + 2 * i for i in range(len(counts))]).to(x.dtype)
    for dim, count in enumerate(counts, first):
        parts = _parts(x.shape[dim], count)
        total = sum(torch.where(_along(inside, dim, x), wide.index_select(dim, place), 0.0) for place, inside in parts)
        wide = total / _along(torch.stack([inside.float() for _, inside in parts]).sum(0), dim, x)
    return wide.to(x.dtype)


@rule(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def _adaptive_max_pool(random: Randomness, x: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    lengths = list(x.shape[x.dim() - len(counts) :])
    if not any(length % count for length, count in zip(lengths, counts, strict=True)):
        kernel = [length // count for length, count in zip(lengths, counts, strict=True)]
        return _maximum_with_places(x, Window.of(len(counts), kernel))
    places = torch.arange(prod(lengths), device=x.device).view(lengths).expand(x.shape)
    # The last dimension first: of equal elements the first in rows is taken.
    for dim, count in reversed(list(enumerate(counts, x.dim() - len(counts)))):
        (index, _), *others = _parts(x.shape[dim], count)
        best, taken = x.index_select(dim, index), places.index_select(dim, index)
        for index, inside in others:
            new = x.index_select(dim, index)
            better = ((new > best) | (new != new)) & _along(inside, dim, x)
            best, taken = torch.where(better, new, best), torch.where(better, places.index_select(dim, index), taken)
        x, places = best, taken
    return x, places


def _maximum(x: Tensor, window: Window) -> Tensor:
    """Of x [N, C, *sizes] or [C, *sizes]."""
    rank = len(window.kernel)
    if x.dim() == rank + 1:
        return _maximum(x.unsqueeze(0), window).squeeze(0)
    if rank == 1:
        return _maximum(x.unsqueeze(2), window.with_dim()).squeeze(2)
    padded = functional.pad(x, [each for end in reversed(window.ends(x.shape[2:])) for each in (0, end)], value=-inf)
    pool = torch.ops.dmc.max_pool2d if rank == 2 else torch.ops.dmc.max_pool3d
    return pool(padded, window.kernel, window.stride, window.padding, window.dilation)


def _maximum_with_places(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """The same, and where in the input the largest elements are."""
    rank = len(window.kernel)
    lengths = x.shape[x.dim() - rank :]
    whole = x.detach().reshape(1, -1, *lengths)
    ends = [each for end in reversed(window.ends(lengths)) for each in (0, end)]
    padded = functional.pad(whole, ends, value=-inf)
    taken = largest(padded, window.kernel, window.stride, window.padding, window.dilation).to(torch.int64)
    place = torch.zeros_like(taken)
    for number, (length, within) in enumerate(zip(lengths, _unravelled(taken, window.kernel), strict=True)):
        first = torch.arange(taken.shape[number + 2], device=x.device) * window.stride[number] - window.padding[number]
        place = place * length + _along(first, number + 2, taken) + within * window.dilation[number]
    values = _maximum(x, window)
    return values, place.reshape(values.shape)


def _unravelled(place: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The coordinates of places in a box of this size."""
    strides = [prod(sizes[number + 1 :]) for number in range(len(sizes))]
    return [place // stride % size for stride, size in zip(strides, sizes, strict=True)]


def _average(
    x: Tensor,
    rank: int,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    with_padding: bool = True,
    divisor: int | None = None,
) -> Tensor:
    window = Window.of(rank, kernel, stride, padding, (1,), ceil_mode)
    # Narrow types are added up in f32, and rounded once.
    total, lengths = x.float(), x.shape[x.dim() - rank :]
    counts = window.counts(lengths)
    # What a mean divides by differs where windows reach over an edge.
    divisors: Tensor | int = prod(window.kernel)
    if any(window.padding) or any(window.ends(lengths)):
        divisors = torch.ones([], device=x.device)
    for number, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        dim = x.dim() - rank + number
        k, s, p = window.kernel[number], window.stride[number], window.padding[number]
        total = _WindowSums.apply(total.movedim(dim, -1), k, s, p, count).movedim(-1, dim)
        if isinstance(divisors, Tensor):
            first = torch.arange(count, device=x.device) * s - p
            last = (first + k).clamp(max=length + p if with_padding else length)
            size = last - (first if with_padding else first.clamp(min=0))
            divisors = divisors * _along(size.float(), dim, x)
    return (total / (divisors if divisor is None else divisor)).to(x.dtype)


class _WindowSums(torch.autograd.Function):
    """x [.., N] → the sum of each of `count` windows of `k` elements, `s` apart, `p` of them before the first."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, k: int, s: int, p: int, count: int) -> Tensor:
        ctx.length, ctx.window = x.shape[-1], (k, s, p, count)
        padded = functional.pad(x, [p, max(0, (count - 1) * s + k - p - x.shape[-1])])
        # From 0 on, as in eager: a sum of -0 is 0.
        return sum(
            (padded[..., i : i + (count - 1) * s + 1 : s] for i in range(1, k)),
            padded[..., : (count - 1) * s + 1 : s] + 0.0,
        )

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return _Spread.apply(grad_outputs[0], ctx.length, *ctx.window), None, None, None, None


class _Spread(torch.autograd.Function):
    """The gradient of `_WindowSums`: of each element, the sum of the windows that cover it."""

    @staticmethod
    def forward(ctx: Any, dy: Tensor, length: int, k: int, s: int, p: int, count: int) -> Tensor:
        ctx.window = (k, s, p, count)
        windows = windows_over([dy], dy.dim() - 1, length, k, s, p)
        first, *others = (torch.where(offset < 0, 0.0, each) for (each,), offset in windows)
        return sum(others, first)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return _WindowSums.apply(grad_outputs[0], *ctx.window), None, None, None, None, None


def _parts(length: int, count: int) -> list[tuple[Tensor, Tensor]]:
    """The first elements of `count` parts of a row, their second ones …: indices, and whether there is one."""
    number = torch.arange(count)
    first, last = number * length // count, ((number + 1) * length + count - 1) // count
    most = max(-(-(i + 1) * length // count) - i * length // count for i in range(count))
    return [((first + i).clamp(max=length - 1), first + i < last) for i in range(most)]


def _along(vector: Tensor, dim: int, x: Tensor) -> Tensor:
    """`vector` along dimension `dim` of `x`."""
    return vector.view([-1 if each == dim else 1 for each in range(x.dim())])
