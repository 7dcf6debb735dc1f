"""Assignments at a mask, as in `x[mask] = vector`: a choice for each element.

PyTorch's own gradient of the vector collects the true elements, of which there may be any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import DECLINE, rule

aten = torch.ops.aten
Indices = Sequence[Tensor | None]


@rule(aten.index_put.default)
def _index_put(random: Randomness, x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Any:
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1 or given[0][1].dtype != torch.bool:
        return DECLINE
    ((dim, mask),) = given
    rest = x.dim() - dim - mask.dim()
    if values.dim() > rest:
        # A row for each true element, unless one is for all.
        row = values.dim() - rest - 1
        if values.shape[row] != 1:
            return DECLINE
        values = values.reshape([*values.shape[:row], *[1] * mask.dim(), *values.shape[row + 1 :]])
    new = x + values if accumulate else values
    return torch.where(mask.reshape([*mask.shape, *[1] * rest]), new, x)


@rule(aten.index_put_.default)
def _index_put_in_place(
    random: Randomness, x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False
) -> Any:
    result = _index_put(random, x, indices, values, accumulate)
    return DECLINE if result is DECLINE else x.copy_(result)
