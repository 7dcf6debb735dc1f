"""Writes of what a mask chooses: back to where it was chosen, or at chosen places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, rule
from dmc.importer.forward.chosen.selecting import choice_of, is_mask
from dmc.importer.forward.chosen.values import Chosen, Extent, refused

_SAME = "write what the same mask chooses: x[mask] = y[mask] * 2.0"


@rule("index_put", "index_put_", "_index_put_impl_")
def _assigned(call: Call) -> Any:
    x, indices, values = call.given["self"], call.given["indices"], call.given["values"]
    if isinstance(x, Chosen):
        raise refused(
            "writes into what a mask chooses, at an index",
            "choose what to write first: x[mask] = torch.where(other, value, x[mask])",
        )
    given = [(dim, each) for dim, each in enumerate(indices) if each is not None]
    if len(given) == 1 and is_mask(given[0][1]):
        result = _where_chosen(call, x, given[0][1], given[0][0], values)
    else:
        result = _at_places(call, x, indices, values)
    return x.copy_(result) if call.name.endswith("_") else result


def _where_chosen(call: Call, x: Tensor, mask: Any, dim: int, values: Any) -> Tensor:
    if isinstance(mask, Chosen) or not isinstance(values, Chosen):
        raise refused("writes what one mask chooses elsewhere", _SAME)
    row = values.tensor.dim() - (x.dim() - dim - mask.dim()) - 1
    if row < 0 or values.extents[row] != Extent(choice_of(call, mask)) or values.dims != [row]:
        raise refused("writes what one mask chooses elsewhere", _SAME)
    whole = values.filled
    whole = whole.reshape([*whole.shape[:row], *mask.shape, *whole.shape[row + 1 :]]).to(x.dtype)
    rest = x.dim() - dim - mask.dim()
    return torch.where(mask.reshape([*mask.shape, *[1] * rest]), x + whole if call.given["accumulate"] else whole, x)


def _at_places(call: Call, x: Tensor, indices: Any, values: Any) -> Tensor:
    """Each place that is not chosen writes once more what the chosen one before it wrote, or first what the first one
    writes. So the last write to a place is eager's."""
    given = [each for each in indices if each is not None]
    extent = given[0].extents[0] if isinstance(given[0], Chosen) else None
    is_row = all(isinstance(each, Chosen) and each.extents == (extent,) and not is_mask(each) for each in given)
    is_row = is_row and all(each is not None for each in indices[: len(given)])
    if isinstance(values, Chosen):
        is_row = is_row and values.extents[:1] == (extent,)
    if extent is None or not is_row:
        raise refused("writes what one mask chooses elsewhere", _SAME)
    mask = extent.mask
    rows = torch.where(mask, torch.arange(extent.whole), 0).cummax(0)[0]
    rows = torch.where(mask.cumsum(0) > 0, rows, extent.first)
    whole = [each.filled.index_select(0, rows) for each in given]
    there = torch.ops.aten.index.Tensor(x, whole)
    new = (values.filled if isinstance(values, Chosen) else values).to(x.dtype)
    mask = mask.reshape([-1] + [1] * (there.dim() - 1))
    if call.given["accumulate"]:
        new = torch.where(mask, new, torch.zeros([], dtype=x.dtype))
    else:
        new = torch.where(mask, new, new.expand(there.shape).detach().index_select(0, rows))
    result = call.run(torch.ops.aten.index_put.default, [x, whole, new, call.given["accumulate"]], {})
    return torch.where(extent.count > 0, result, x)
