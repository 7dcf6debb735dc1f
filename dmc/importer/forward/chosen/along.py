"""Operations along a dimension of which a mask decides the size, that keep it or choose a fixed number of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call
from dmc.importer.forward.chosen.values import highest, lowest

ALONG: dict[str, Callable[[Call], Any]] = {}


def _along(*names: str) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    def register(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        ALONG.update(dict.fromkeys(names, function))
        return function

    return register


@_along("softmax", "log_softmax")
def _softmax(call: Call) -> Any:
    (x,) = call.chosen
    # log 0, where none is chosen.
    return call.unfilled(call.applied({"self": x.with_value(lowest(x.tensor.dtype), [call.dim(call.given["dim"])])}))


@_along("cumsum")
def _cumsum(call: Call) -> Any:
    (x,) = call.chosen
    # 0 before the first that is chosen.
    return call.unfilled(call.applied({"self": x.with_value(0, [call.dim(call.given["dim"])])}))


@_along("topk")
def _topk(call: Call) -> Any:
    (x,) = call.chosen
    dim, worst = call.dim(call.given["dim"]), lowest if call.given["largest"] else highest
    extent = x.extents[dim]
    assert extent is not None
    call.conditions.append(extent.count >= call.given["k"])
    values, places = call.applied({"self": x.with_value(worst(x.tensor.dtype), [dim])})
    return call.made((values, ranked(extent.mask, places)))


def ranked(mask: Tensor, places: Tensor) -> Tensor:
    """By place how many before it are chosen; where all are alike the first place is found, chosen or not."""
    ranks = (mask.to(torch.int64).cumsum(0) - 1).clamp(min=0)
    return ranks.index_select(0, places.reshape(-1)).reshape(places.shape)
