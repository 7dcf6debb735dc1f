"""One term of a global norm."""

from __future__ import annotations

from torch import Tensor

from dmc.importer.composites.base import composite


@composite("sum_of_squares(Tensor x, Tensor total) -> Tensor")
def sum_of_squares(x: Tensor, total: Tensor) -> Tensor:
    """`total` (f32 []) plus the sum of the squares of `x`, in f32."""
    wide = x.float()
    # In two stages, so that the first is parallel over rows.
    return total + (wide * wide).sum(-1).sum()
