"""Masks that a model makes of constants: how many elements they choose is known while it is traced, and which."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from dmc.importer.python.known import KnownValues
from dmc.importer.torch_internals import untraced


def indexed(index: Any, known: KnownValues) -> Any:
    """An index, with the places that known masks choose instead of the masks."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(_is_mask(part) for part in parts):
        return index
    found: list[Any] = []
    for part in parts:
        found += (_places(part, known) or [part]) if _is_mask(part) else [part]
    return tuple(found)


def masked_select(function: Any, x: Tensor, mask: Tensor, known: KnownValues) -> Tensor:
    """`torch.masked_select`."""
    places = _places(mask.expand(torch.broadcast_shapes(x.shape, mask.shape)), known) if _is_mask(mask) else None
    return function(x, mask) if places is None else x.expand(torch.broadcast_shapes(x.shape, mask.shape))[tuple(places)]


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """`torch.combinations`, whose places depend on no values."""
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return x[torch.tensor(list(choose(range(len(x)), r)), dtype=torch.int64).reshape(-1, r)]


def _is_mask(part: Any) -> bool:
    return isinstance(part, Tensor) and part.dtype == torch.bool and part.dim() > 0


def _places(mask: Tensor, known: KnownValues) -> list[Tensor] | None:
    value = known.tensor(mask)
    if value is None:
        return None
    with untraced():
        places = [each.tolist() for each in value.nonzero(as_tuple=True)]
    return [torch.tensor(each, dtype=torch.int64) for each in places]
