"""Views in other shapes of what a mask chooses, and tensors side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, rule
from dmc.importer.forward.chosen.values import Chosen, Extent, Sizes, refused, sizes_of

_RESHAPED = "x[mask] has one row for each element that is chosen: reshape the rows only, or choose after the reshape"


@rule("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "_unsafe_view", "ravel")
def _reshaped(call: Call) -> Any:
    x = call.args[0]
    if not isinstance(x, Chosen):
        raise refused("gives another shape to what a mask chooses", _RESHAPED)
    sizes = sizes_of(call.recorded)
    shape = [call.choices.whole(size) for size in sizes]
    if math.prod(shape) != x.tensor.numel():
        raise refused("gives another shape to what a mask chooses", _RESHAPED)
    extents = _regrouped(x, sizes, shape)
    tensor = x.filled if call.is_written else x.tensor
    return Chosen(tensor.reshape(shape), tuple(extents), sizes, x.is_raw and not call.is_written)


def _regrouped(x: Chosen, sizes: Sizes, shape: Sequence[int]) -> list[Extent | None]:
    """The extents of `x` in another shape, in which each chosen dimension holds one of the old ones."""
    found: list[Extent | None] = [None] * len(shape)
    for dim in x.dims:
        extent = x.extents[dim]
        assert extent is not None
        # In elements of the tensor, from one place of the choice to the next, and past the last.
        step = math.prod(x.tensor.shape[dim + 1 :]) * extent.after
        end = step * extent.choice.size
        for place, size in enumerate(sizes):
            inner = math.prod(shape[place + 1 :])
            outer = inner * shape[place]
            if isinstance(size, int) or found[place] is not None or step % inner or outer % end or step < inner:
                continue
            found[place] = Extent(extent.choice, outer // end, step // inner)
            break
    if any((extent is None) != isinstance(size, int) for extent, size in zip(found, sizes, strict=True)):
        raise refused("gives another shape to what a mask chooses", _RESHAPED)
    if sum(extent is not None for extent in found) != len(x.dims):
        raise refused("gives another shape to what a mask chooses", _RESHAPED)
    return found


@rule("cat", "concat", "concatenate")
def _joined(call: Call) -> Any:
    parts, dim = list(call.given["tensors"]), call.dim(call.given["dim"])
    along = [each.extents[dim] if isinstance(each, Chosen) else None for each in parts]
    if not any(along):
        return call.kept()
    wholes = [each.filled if isinstance(each, Chosen) else each for each in parts]
    key = (
        "cat",
        *(whole.shape[dim] if extent is None else extent for whole, extent in zip(wholes, along, strict=True)),
    )
    choice = call.choices.choice(key, None, lambda: torch.cat([*map(_mask, wholes, along, [dim] * len(parts))]))
    sizes = sizes_of(call.recorded)
    extents = [None if isinstance(size, int) else call.extents.get(size) for size in sizes]
    extents[dim] = Extent(choice)
    return Chosen(call.run(call.target, [wholes, dim], {}), tuple(extents), sizes)


def _mask(whole: Tensor, extent: Extent | None, dim: int) -> Tensor:
    return torch.ones(whole.shape[dim], dtype=torch.bool) if extent is None else extent.mask
