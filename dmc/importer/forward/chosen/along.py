"""Operations along a dimension of which a mask decides the size, that keep it or choose a fixed number of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, plain
from dmc.importer.forward.chosen.parts import Fill
from dmc.importer.forward.chosen.values import Chosen, highest, lowest

# What changes nothing along the dimension where it is not chosen, and whether the result keeps that dimension.
FILLS: dict[str, tuple[Callable[[Call], Fill], bool]] = {
    "softmax": (lambda call: lowest, True),
    "log_softmax": (lambda call: lowest, True),
    "cumsum": (lambda call: 0, True),
    "topk": (lambda call: lowest if call.given["largest"] else highest, False),
}


def topk(call: Call) -> Any:
    """As eager, which raises where there are fewer: the loss is NaN. Places are counted among what is chosen."""
    x, dim = call.given["self"], call.dim(call.given["dim"])
    extent = x.extents[dim] if isinstance(x, Chosen) else None
    if extent is None:
        return plain(call)
    call.conditions.append(extent.count >= call.given["k"])
    values, places = call.applied()
    return call.made((values, ranked(extent.mask, places)))


def ranked(mask: Tensor, places: Tensor) -> Tensor:
    """By place how many before it are chosen; where all are alike the first place is found, chosen or not."""
    ranks = (mask.to(torch.int64).cumsum(0) - 1).clamp(min=0)
    return ranks.index_select(0, places.reshape(-1)).reshape(places.shape)
