"""Embedding look-up and its gradient, both without a scatter: deterministic on every backend."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable, differentiable_by_definition


@composite("embedding(Tensor weight, Tensor index, int padding_index) -> Tensor")
def embedding(weight: Tensor, index: Tensor, padding_index: int) -> Tensor:
    """Rows of `weight` [V, D] at `index` (int64, any shape): [*index, D]. A row out of range is NaN, never a guess.

    `padding_index` is the row that gets no gradient; -1 for none.
    """
    rows = weight.shape[0]
    in_range = ((index >= 0) & (index < rows)).unsqueeze(-1)
    return torch.where(in_range, torch.embedding(weight, index.clamp(0, rows - 1)), float("nan"))


@composite("embedding_backward(Tensor dy, Tensor index, int rows, int padding_index) -> Tensor")
def embedding_backward(dy: Tensor, index: Tensor, rows: int, padding_index: int) -> Tensor:
    """The gradient [rows, D] of the table: for each row the sum of `dy` over its occurrences, in order.

    Floats are added up in f32, integers as they are.
    """
    flat = index.reshape(-1)
    if padding_index >= 0:
        flat = torch.where(flat == padding_index, -1, flat)
    wide = dy.reshape(flat.shape[0], -1)
    every_row = torch.arange(rows, device=dy.device)
    if not dy.is_floating_point():
        # Added up as they are: f32 holds integers up to 2²⁴ only.
        hit = (every_row.unsqueeze(1) == flat).unsqueeze(-1)
        return torch.where(hit, wide, torch.zeros([], dtype=dy.dtype)).sum(1).to(dy.dtype)
    wide = wide.float()
    if rows <= flat.shape[0]:
        return _sums(every_row.unsqueeze(1) == flat, wide).to(dy.dtype)
    # With more rows than occurrences most rows get nothing: the sums are taken for each occurrence instead, and each
    # row takes that of its last one.
    sums = _sums(flat.unsqueeze(1) == flat, wide)
    occurrence = torch.arange(flat.shape[0], device=dy.device)
    last = torch.where(every_row.unsqueeze(1) == flat, occurrence, -1).amax(1)
    return torch.where((last >= 0).unsqueeze(1), sums[last.clamp(min=0)], 0.0).to(dy.dtype)


def _sums(hit: Tensor, x: Tensor) -> Tensor:
    """For each row of `hit` the sum of the rows of `x` where it is true.

    Products with zeros and ones: exact, and much faster than the same sums written as selections. Zero times infinity
    is NaN, so what is not finite is counted apart.
    """
    ones = hit.float()
    up, down = ((x != x) | (x == infinity) for infinity in (math.inf, -math.inf))
    total = ones @ torch.where(up | down, 0.0, x)
    total = torch.where(ones @ up.float() > 0.0, math.inf, total)
    # Both infinities, as NaN is counted, are none.
    return total - torch.where(ones @ down.float() > 0.0, math.inf, 0.0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    weight, index, ctx.padding_index = inputs
    ctx.rows = weight.shape[0]
    ctx.save_for_backward(index)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    (index,) = ctx.saved_tensors
    return torch.ops.dmc.embedding_backward(dy, index, ctx.rows, ctx.padding_index), None, None


differentiable("embedding", _setup, _backward, is_linear=True)
differentiable_by_definition("embedding_backward")
