"""Expansions that repeat nothing, as views of what they expand.

A write through an expansion is functionalised as adding a difference, which rounds, and turns infinities into NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
# A tensor, or several, expanded.
OPERATIONS = (
    *(aten.expand.default, aten.expand_as.default, aten.broadcast_to.default, aten.broadcast_tensors.default),
    *(aten.meshgrid.default, aten.meshgrid.indexing),
)


def expanded(operation: Callable[..., Any], x: Tensor | Sequence[Tensor], *to: Any, **options: Any) -> Any:
    """`operation(x, …)`."""
    results = operation(x, *to, **options)
    if isinstance(x, Tensor):
        return _view(x, results)
    return [_view(source, result) for source, result in zip(x, results, strict=True)]


def _view(source: Tensor, result: Tensor) -> Tensor:
    # Export takes a result that is the operand itself for the operand from then on: a view, of a region without
    # gradients, would lose its gradient.
    if result is source or source.numel() != result.numel():
        return result
    return source.view(result.shape)
