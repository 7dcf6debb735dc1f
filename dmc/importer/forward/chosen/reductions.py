"""Reductions: what is not chosen counts as nothing."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.along import ranked
from dmc.importer.forward.chosen.calls import Call, plain, rule
from dmc.importer.forward.chosen.parts import Parts, from_last, rank_of
from dmc.importer.forward.chosen.values import Chosen, Extents, highest, lowest, refused

_LARGEST, _SMALLEST = ("max", "amax", "argmax"), ("min", "amin", "argmin")
_SUMS = {
    **dict.fromkeys(("sum", "nansum", "any", "count_nonzero", "norm", "linalg_vector_norm", "frobenius_norm"), 0),
    **dict.fromkeys(("all", "prod"), 1),
    "logsumexp": -math.inf,
}
# What does not change the result; of means and variances, that of the sums of which they are made.
_NOTHING: dict[str, Any] = {
    **_SUMS,
    **dict.fromkeys(("mean", "var", "std"), 0),
    **dict.fromkeys(_LARGEST, lowest),
    **dict.fromkeys(_SMALLEST, highest),
}


def _reduced(call: Call) -> Parts:
    """Along dimensions that are reduced what is not chosen counts as nothing."""
    if "other" in call.given:
        return from_last(call.operands)
    (x,) = call.operands.values()
    dims = {*call.dims(call.given.get("dim"))}
    return Parts({"self": range(rank_of(x))}, {*range(rank_of(x))} - dims, dict.fromkeys(dims, _NOTHING[call.name]))


def _reduced_dims(call: Call) -> list[int]:
    """Dimensions of which a mask decides the size, and along which an operation reduces."""
    x = call.given["self"]
    return [dim for dim in call.dims(call.given.get("dim")) if isinstance(x, Chosen) and x.extents[dim] is not None]


def _sum(call: Call) -> Any:
    power = call.given.get("ord", call.given.get("p"))
    if isinstance(power, int | float) and power < 0 and _reduced_dims(call):
        raise refused("takes a norm of a negative power of what a mask chooses")
    return plain(call)


rule(*_SUMS, takes=_reduced)(_sum)


@rule("mean", takes=_reduced)
def _mean(call: Call) -> Any:
    if not (dims := _reduced_dims(call)):
        return plain(call)
    (x,) = call.chosen
    every = call.dims(call.given.get("dim"))
    keepdim = call.given.get("keepdim", False)
    return call.made(masked_mean(x, dims, every, keepdim, call.given["dtype"] or x.tensor.dtype))


def masked_mean(x: Chosen, dims: list[int], every: list[int], keepdim: bool, dtype: torch.dtype) -> Tensor:
    """The mean over dimensions `every`, of which masks decide the sizes of `dims`."""
    total = x.with_value(0, dims).sum(every, keepdim=keepdim, dtype=_wide(dtype))
    return (total / elements(x.tensor, x.extents, every)).to(dtype)


def elements(tensor: Tensor, extents: Extents, dims: list[int]) -> Tensor:
    """How many elements there are along dimensions, an int64 []."""
    result = torch.ones([], dtype=torch.int64)
    for dim in dims:
        extent = extents[dim]
        result = result * (tensor.shape[dim] if extent is None else extent.count)
    return result


@rule("var", "std", takes=_reduced)
def _variance(call: Call) -> Any:
    if not (dims := _reduced_dims(call)):
        return plain(call)
    (x,) = call.chosen
    every = call.dims(call.given.get("dim"))
    correction = call.given.get("correction", 1 if call.given.get("unbiased", True) else 0)
    correction = 1 if correction is None else correction
    wide = _wide(x.tensor.dtype)
    mean = masked_mean(x, dims, every, True, wide)
    away = torch.where(x.mask(dims), x.filled.to(wide) - mean, torch.zeros([], dtype=wide))
    count = elements(x.tensor, x.extents, every)
    keepdim = call.given.get("keepdim", False)
    result = (away * away).sum(every, keepdim=keepdim) / (count - correction).clamp(min=0)
    return call.made((result.sqrt() if call.name == "std" else result).to(x.tensor.dtype))


@rule(*_LARGEST, *_SMALLEST, takes=_reduced)
def _extreme(call: Call) -> Any:
    """As eager, which raises where there is none: the loss is NaN."""
    if "other" in call.given or not (dims := _reduced_dims(call)):
        return plain(call)
    (x,) = call.chosen
    for dim in dims:
        extent = x.extents[dim]
        assert extent is not None
        call.conditions.append(extent.count > 0)
    result = call.applied()
    if not isinstance(result, Tensor):
        values, places = result
        return call.made((values, _ranks(x, dims[0], places)))
    if not call.name.startswith("arg"):
        return call.made(result)
    if call.given["dim"] is None and x.tensor.dim() > 1:
        raise refused(
            "counts places of several dimensions of what a mask chooses", "give it one dimension: x[mask].argmax(0)"
        )
    return call.made(_ranks(x, dims[0], result))


def _ranks(x: Chosen, dim: int, places: Tensor) -> Tensor:
    extent = x.extents[dim]
    assert extent is not None
    return ranked(extent.mask, places)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
