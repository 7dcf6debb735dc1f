"""Grouped products: the rows of each expert, side by side, times its matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule, rule_by_name


# What `transformers` calls instead while it is traced.
@rule_by_name("transformers.grouped_mm_fallback.default")
@rule(torch.ops.aten._grouped_mm.default)
def _grouped_product(
    random: Randomness,
    rows: Tensor,
    matrices: Tensor,
    ends: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """rows [S, K] times matrices [E, K, N], where those of expert e end before `ends[e]`.

    Shapes are fixed, but the number of rows of an expert depends on data: each expert sees all rows, and its own are
    kept. Rows after the last end, which eager leaves undefined, are zero.
    """
    if rows.dim() != 2 or matrices.dim() != 3 or ends is None or bias is not None:
        raise ImportFailure(None, "this form of a grouped product is not supported", hint="multiply each group alone")
    expert = (ends <= torch.arange(rows.shape[0]).unsqueeze(1)).sum(1, keepdim=True)
    result = rows.new_zeros([rows.shape[0], matrices.shape[2]])
    for number, matrix in enumerate(matrices.unbind(0)):
        result = torch.where(expert == number, rows @ matrix, result)
    return result if out_dtype is None else result.to(out_dtype)
