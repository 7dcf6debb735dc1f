"""`nn.Embedding` and `nn.EmbeddingBag`: rows of a table, and sums, means and maxima of bags of them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten
_MEAN, _MAX = 1, 2


@rule(aten.embedding.default)
def _embedding(
    random: Randomness,
    table: Tensor,
    index: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    # A sparse gradient means the same as a dense one; a compiled step has only the latter.
    rows = torch.ops.dmc.embedding(table, index, padding_idx)
    return _Shared.apply(rows, index) if scale_grad_by_freq else rows


class _Shared(torch.autograd.Function):
    """Rows [.., D] as they are; the gradient of each is divided by how often its index [..] occurs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return rows.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (dy,) = grad_outputs
        (index,) = ctx.saved_tensors
        flat = index.reshape(-1)
        often = (flat.unsqueeze(1) == flat).to(torch.int64).sum(1).reshape(index.shape)
        return dy / often.unsqueeze(-1).to(dy.dtype), None


@rule(aten.embedding_bag.default, aten.embedding_bag.padding_idx)
def _embedding_bag(
    random: Randomness,
    table: Tensor,
    index: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """(the bags [B, D], the bag of each index, sizes of bags, nothing)."""
    if scale_grad_by_freq:
        # Eager divides by how often another index occurs.
        option = "scale_grad_by_freq=True"
        raise ImportFailure(None, f"an embedding bag with {option} is not supported", hint=f"use it without {option}")
    padding_idx = None if padding_idx is None else padding_idx % table.shape[0]
    count = offsets.shape[0] - include_last_offset
    bag = (offsets[:count] <= torch.arange(index.shape[0]).unsqueeze(1)).sum(1) - 1
    rows = _embedding(random, table, index, -1 if padding_idx is None else padding_idx)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
    counts = torch.ones_like(index, dtype=torch.bool) if padding_idx is None else index != padding_idx
    sizes = torch.zeros([count], dtype=torch.int64).index_add(0, bag, counts.to(torch.int64))
    if mode == _MAX:
        return _largest(rows, (bag == torch.arange(count).unsqueeze(1)) & counts), bag, sizes, sizes
    rows = torch.where(counts.unsqueeze(1), rows, 0.0).to(rows.dtype)
    sums = table.new_zeros([count, table.shape[1]]).index_add(0, bag, rows)
    means = sums / sizes.clamp(min=1).unsqueeze(1) if mode == _MEAN else sums
    return means.to(table.dtype), bag, sizes, sizes


def _largest(rows: Tensor, chosen: Tensor) -> Tensor:
    """The maxima over rows [N, D] of each bag, chosen [B, N]; of an empty one zero. The first of equal ones counts."""
    each = torch.where(chosen.unsqueeze(-1), rows, -math.inf)
    return torch.where(chosen.any(1).unsqueeze(1), each.max(1).values, 0.0).to(rows.dtype)
