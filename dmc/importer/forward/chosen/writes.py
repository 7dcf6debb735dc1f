"""Writes of what a mask chooses: back to where it was chosen, or at chosen places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.forward.chosen.calls import Call, rule
from dmc.importer.forward.chosen.parts import Label, Parts, apart, rank_of
from dmc.importer.forward.chosen.selecting import choice_of, is_mask
from dmc.importer.forward.chosen.values import Chosen, Extent, refused

_ELSEWHERE = "writes what one mask chooses elsewhere"
_SAME = "write what the same mask chooses: x[mask] = y[mask] * 2.0"
_ROW = "row"


def _written(call: Call) -> Parts:
    """Values are a row for each that is chosen: by the mask of the index, or as the indices are."""
    given = [(dim, each) for dim, each in enumerate(call.given["indices"]) if each is not None]
    if isinstance(call.given["self"], Chosen):
        raise refused(
            "writes into what a mask chooses, at an index",
            "choose what to write first: x[mask] = torch.where(other, value, x[mask])",
        )
    x, values = call.operands["self"], call.operands["values"]
    is_by_mask = len(given) == 1 and is_mask(given[0][1])
    dim, first = given[0]
    if any(is_mask(each) and (isinstance(each, Chosen) or not is_by_mask) for _, each in given):
        raise refused(_ELSEWHERE, _SAME)
    rest = rank_of(x) - dim - (rank_of(first) if is_by_mask else len(given))
    row = rank_of(values) - rest - 1
    labels: dict[str, Any] = apart(call.operands, call.operands)
    labels["values"] = [("x", row - each) if each != row else _ROW for each in range(rank_of(values))]
    if is_by_mask:
        met: dict[Label, Extent] = {_ROW: Extent(choice_of(call, first))}
        return Parts(labels, met=met, broadcasts=False, different=(_ELSEWHERE, _SAME))
    is_row = all(rank_of(each) == 1 for _, each in given) and [each for each, _ in given] == [*range(len(given))]
    if not is_row or not isinstance(first, Chosen):
        raise refused(_ELSEWHERE, _SAME)
    labels |= {f"indices.{each}": [_ROW] for each, _ in given}
    return Parts(labels, (_ROW,), makes=(_ROW,), different=(_ELSEWHERE, _SAME))


@rule("index_put", "index_put_", "_index_put_impl_", takes=_written)
def _assigned(call: Call) -> Any:
    x, given = call.given["self"], [(dim, each) for dim, each in enumerate(call.given["indices"]) if each is not None]
    dim, first = given[0]
    result = _where_chosen(call, x, first, dim) if is_mask(first) else _at_places(call, x)
    return x.copy_(result) if call.name.endswith("_") else result


def _where_chosen(call: Call, x: Tensor, mask: Tensor, dim: int) -> Tensor:
    rest = x.dim() - dim - mask.dim()
    whole = call.whole("values")
    row = whole.dim() - rest - 1
    whole = whole.reshape([*whole.shape[:row], *mask.shape, *whole.shape[row + 1 :]]).to(x.dtype)
    return torch.where(mask.reshape([*mask.shape, *[1] * rest]), x + whole if call.given["accumulate"] else whole, x)


def _at_places(call: Call, x: Tensor) -> Tensor:
    """Each place that is not chosen writes once more what the chosen one before it wrote, or first what the first one
    writes. So the last write to a place is eager's."""
    extent = call.along[_ROW]
    mask = extent.mask
    rows = torch.where(mask, torch.arange(extent.whole), 0).cummax(0)[0]
    rows = torch.where(mask.cumsum(0) > 0, rows, extent.first)
    whole = [call.whole(name).index_select(0, rows) for name in call.operands if name.startswith("indices.")]
    there = torch.ops.aten.index.Tensor(x, whole)
    new = call.whole("values").to(x.dtype)
    mask = mask.reshape([-1] + [1] * (there.dim() - 1))
    if call.given["accumulate"]:
        new = torch.where(mask, new, torch.zeros([], dtype=x.dtype))
    else:
        new = torch.where(mask, new, new.expand(there.shape).detach().index_select(0, rows))
    result = call.run(torch.ops.aten.index_put.default, [x, whole, new, call.given["accumulate"]], {})
    return torch.where(extent.count > 0, result, x)
