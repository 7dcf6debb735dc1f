"""Views in other shapes of what a mask chooses, and tensors side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, plain, rule
from dmc.importer.forward.chosen.parts import Parts, from_last, rank_of
from dmc.importer.forward.chosen.values import Chosen, Extent, Sizes, refused, sizes_of

_RESHAPED = "x[mask] has one row for each element that is chosen: reshape the rows only, or choose after the reshape"


def _in_a_row(call: Call) -> Parts:
    parts = from_last(call.operands, unread=("other",), moves=True)
    return replace(parts, makes=parts.kept)


@rule("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "_unsafe_view", "ravel", takes=_in_a_row)
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


def _side_by_side(call: Call) -> Parts:
    """Along the dimension in which they are joined none meets another."""
    dim = call.dim(call.given["dim"])
    labels = {
        name: [name if each == dim else each for each in range(rank_of(operand))]
        for name, operand in call.operands.items()
    }
    return Parts(labels, {label for each in labels.values() for label in each}, makes=call.operands)


@rule("cat", "concat", "concatenate", takes=_side_by_side)
def _joined(call: Call) -> Any:
    parts, dim = list(call.given["tensors"]), call.dim(call.given["dim"])
    along = [each.extents[dim] if isinstance(each, Chosen) else None for each in parts]
    if not any(along):
        return plain(call)
    wholes = [call.whole(name) for name in call.operands]
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
