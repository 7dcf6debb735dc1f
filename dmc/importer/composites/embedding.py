"""Embedding look-up and its gradient, both without a scatter, hence deterministic on every backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable


@composite("embedding(Tensor weight, Tensor index, int padding_index) -> Tensor")
def embedding(weight: Tensor, index: Tensor, padding_index: int) -> Tensor:
    """Rows of `weight` [V, D] at `index` (int64, any shape): [*index, D]. A row out of range is NaN.

    `padding_index` is the row that gets no gradient; -1 for none.
    """
    rows = weight.shape[0]
    in_range = ((index >= 0) & (index < rows)).unsqueeze(-1)
    return torch.where(in_range, torch.embedding(weight, index.clamp(0, rows - 1)), float("nan"))


@composite("embedding_backward(Tensor dy, Tensor index, int rows, int padding_index) -> Tensor")
def embedding_backward(dy: Tensor, index: Tensor, rows: int, padding_index: int) -> Tensor:
    """The gradient [rows, D] of the table: for each row the sum of `dy` over its occurrences, in order.

    Floats are accumulated in f32, integers in their own type.
    """
    flat = index.reshape(-1)
    if padding_index >= 0:
        flat = torch.where(flat == padding_index, -1, flat)
    wide = dy.reshape(flat.shape[0], -1)
    every_row = torch.arange(rows, device=dy.device)
    if not dy.is_floating_point():
        # In their own type: f32 is exact only for integers up to 2²⁴.
        hit = (every_row.unsqueeze(1) == flat).unsqueeze(-1)
        return torch.where(hit, wide, torch.zeros([], dtype=dy.dtype)).sum(1).to(dy.dtype)
    wide = wide.float()
    # Products with a one-hot matrix: exact, and much faster than sums of selections. A gradient that is not finite
    # makes all rows NaN, where eager's is in one: zero times infinity is NaN.
    if rows <= flat.shape[0]:
        return ((every_row.unsqueeze(1) == flat).float() @ wide).to(dy.dtype)
    # With more rows than occurrences most rows get nothing: sums are computed per occurrence instead, and each row
    # takes that of its last one.
    sums = (flat.unsqueeze(1) == flat).float() @ wide
    occurrence = torch.arange(flat.shape[0], device=dy.device)
    last = torch.where(every_row.unsqueeze(1) == flat, occurrence, -1).amax(1)
    return torch.where((last >= 0).unsqueeze(1), sums[last.clamp(min=0)], 0.0).to(dy.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    weight, index, ctx.padding_index = inputs
    ctx.rows = weight.shape[0]
    ctx.save_for_backward(index)


def _backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    (index,) = ctx.saved_tensors
    return torch.ops.dmc.embedding_backward(dy, index, ctx.rows, ctx.padding_index), None, None


differentiable("embedding", _setup, _backward)
