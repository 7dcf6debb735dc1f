"""Grouped products: the rows of each expert, side by side, times its matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

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

    Rows after the last end, which eager leaves undefined, are zero.
    """
    if rows.dim() != 2 or matrices.dim() != 3 or ends is None or bias is not None:
        raise ImportFailure(None, "this form of a grouped product is not supported", hint="multiply each group alone")
    ends = ends.to(torch.int64).unsqueeze(0)
    begins = functional.pad(ends[:, :-1], [1, 0])
    # Matrices are often transposed views: read where they are.
    turned = not matrices.is_contiguous() and matrices.transpose(1, 2).is_contiguous()
    own = matrices.transpose(1, 2) if turned else matrices
    result = torch.ops.dmc.grouped_product(rows.unsqueeze(0), own, begins, ends, turned).squeeze(0)
    return result if out_dtype is None else result.to(out_dtype)
