"""`nn.EmbeddingBag`: sums and means of bags of rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.forward.randomness import Randomness
from dmc.importer.forward.registry import rule

aten = torch.ops.aten
_MEAN, _MAX = 1, 2


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
    """(the bags [B, D], the bag of each index, sizes of bags, nothing). A sparse gradient means the same as a dense."""
    if scale_grad_by_freq or mode == _MAX:
        option = "scale_grad_by_freq=True" if scale_grad_by_freq else "mode='max'"
        raise ImportFailure(None, f"an embedding bag with {option} is not supported", hint=f"use it without {option}")
    count = offsets.shape[0] - include_last_offset
    place = torch.arange(index.shape[0])
    bag = (offsets[:count] <= place.unsqueeze(1)).sum(1) - 1
    rows = torch.ops.dmc.embedding(table, index, -1 if padding_idx is None else padding_idx)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
    is_padding = torch.zeros_like(index, dtype=torch.bool) if padding_idx is None else index == padding_idx
    rows = torch.where(is_padding.unsqueeze(1), 0.0, rows).to(rows.dtype)
    sums = table.new_zeros([count, table.shape[1]]).index_add(0, bag, rows)
    sizes = torch.zeros([count], dtype=torch.int64).index_add(0, bag, (~is_padding).to(torch.int64))
    means = sums / sizes.clamp(min=1).unsqueeze(1) if mode == _MEAN else sums
    return means.to(table.dtype), bag, sizes, sizes
