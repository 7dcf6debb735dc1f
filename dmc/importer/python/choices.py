"""Masks that choose elements, where a trace does not know which: equal ones become one, so that PyTorch knows that they
choose equally many. `importer/forward/chosen` computes what they choose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dmc.importer.python.known import KnownValues
from dmc.importer.python.numbering import Number, Numbering
from dmc.importer.torch_internals import version

_ALL = slice(None)
_BASIC = (slice, int, type(Ellipsis), type(None))


@dataclass
class Choices:
    """Those of one trace. known: tensors whose values are known. made: by the number of its elements a mask that has
    chosen, and its version then."""

    known: KnownValues
    numbering: Numbering = field(default_factory=Numbering)
    made: dict[Number, tuple[Tensor, int]] = field(default_factory=dict[Number, tuple[Tensor, int]])

    def ends(self, index: Any) -> bool:
        """Whether a slice of an index ends or begins at a number in a tensor."""
        return any(map(self._ends, index if isinstance(index, tuple) else (index,)))

    def read(self, get: Callable[..., Tensor], x: Tensor, index: Any) -> Tensor:
        """`x[index]`."""
        found = self._split(x, index)
        if found is None:
            return get(x, index)
        before, mask, after = found
        if any(each != _ALL for each in before):
            x = get(x, before)
        dim = sum(isinstance(each, slice) for each in before)
        result = self._chosen(get, x, mask, dim)
        return get(result, (*[_ALL] * (dim + 1), *after)) if after else result

    def select(self, x: Tensor, mask: Tensor) -> Tensor:
        """`torch.masked_select`."""
        x, mask = (each if each.dim() else each.reshape(1) for each in torch.broadcast_tensors(x, mask))
        return self._chosen(torch.Tensor.__getitem__, x, mask, 0)

    def assigned(self, x: Tensor, index: Any, value: Any) -> tuple[Any, Any]:
        """index and value of `x[index] = value`."""
        found = self._split(x, index)
        if found is None:
            return index, value
        before, mask, after = found
        column = self.numbering.of_first_column(mask) if _is_sized_by_data(value) else None
        if column is not None and mask.dim() == x.dim() and value.dim() == 1:
            value = value.unflatten(0, (-1, mask.shape[-1]))
            return self._one_of(mask.select(-1, 0), column), value
        one = self._one_of(mask, self.numbering.of(mask))
        return (*before, one if one.shape == mask.shape else mask, *after), value

    def scattered(self, function: Callable[..., Tensor], x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        """`torch.masked_scatter`."""
        if not _is_sized_by_data(source):
            return function(x, mask, source)
        result = x.clone()
        index, value = self.assigned(result, mask.expand(x.shape), source.reshape(-1))
        result[index] = value
        return result

    def places(self, function: Callable[..., Any], mask: Tensor, **options: Any) -> Any:
        """`torch.nonzero` and the like."""
        if _is_sized_by_data(mask) or not mask.dim():
            return function(mask, **options)
        mask = mask if mask.dtype == torch.bool else mask != 0
        one = self._one_of(mask, self.numbering.of(mask))
        return function(one if one.shape == mask.shape else mask, **options)

    def _chosen(self, get: Callable[..., Tensor], x: Tensor, mask: Tensor, dim: int) -> Tensor:
        """`x[:, mask]`, of which the mask is at dimension `dim`."""
        if _is_sized_by_data(x) or _is_sized_by_data(mask):
            return get(x, (*[_ALL] * dim, mask))
        shape, end = x.shape, dim + mask.dim()
        if x.dim() < end or shape[dim:end] != mask.shape:
            return get(x, (*[_ALL] * dim, mask))  # As PyTorch refuses it.
        column = self.numbering.of_first_column(mask)
        if column is not None:
            one = self._one_of(mask.select(-1, 0), column)
            rows = x.reshape(*shape[:dim], *one.shape, *shape[end - 1 :])
            return get(rows, (*[_ALL] * dim, one)).flatten(dim, dim + 1)
        one = self._one_of(mask, self.numbering.of(mask))
        rows = x if one.shape == mask.shape else x.reshape(*shape[:dim], *one.shape, *shape[end:])
        return get(rows, (*[_ALL] * dim, one))

    def _one_of(self, mask: Tensor, number: Number | None) -> Tensor:
        """The mask of this number that has chosen already; else this one."""
        if number is None:
            return mask
        made, when = self.made.get(number, (mask, version(mask)))
        if version(made) != when:
            made = mask
        self.made[number] = made, version(made)
        return made

    def _split(self, x: Tensor, index: Any) -> tuple[tuple[Any, ...], Tensor, tuple[Any, ...]] | None:
        """Slices and numbers before the mask of an index, the mask, and what follows it; None where there is none."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) <= x.dim() and not _is_sized_by_data(x):
            parts = tuple(self._as_mask(part, x.shape[dim]) for dim, part in enumerate(parts))
        masks = [place for place, part in enumerate(parts) if self._is_mask(part)]
        if len(masks) != 1:
            return None
        before, mask, after = parts[: masks[0]], parts[masks[0]], parts[masks[0] + 1 :]
        is_simple = all(isinstance(each, slice) or type(each) is int for each in before)
        is_simple = is_simple and all(type(each) in _BASIC for each in after)
        return (before, mask, after) if is_simple else None

    def _is_mask(self, part: Any) -> bool:
        return isinstance(part, Tensor) and part.dtype == torch.bool and part.dim() > 0

    def _as_mask(self, part: Any, size: int) -> Any:
        """A slice to or from a number in a tensor as a mask; anything else as it is."""
        if not self._ends(part):
            return part
        places = torch.arange(size)
        start, stop = (
            _counted(each, size)
            for each in (0 if part.start is None else part.start, math.inf if part.stop is None else part.stop)
        )
        return (places >= start) & (places < stop)

    def _ends(self, part: Any) -> bool:
        if not isinstance(part, slice) or not (part.step is None or part.step == 1):
            return False
        return any(isinstance(each, Tensor) and not self.known.knows(each) for each in (part.start, part.stop))


def logsumexp(function: Callable[..., Tensor], x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """`torch.logsumexp`, also of what a mask chooses, which PyTorch does not export."""
    if not _is_sized_by_data(x):
        return function(x, dim, keepdim)
    largest = x.detach().amax(dim, keepdim=True)
    largest = torch.where(largest.isinf(), 0.0, largest)
    result = (x - largest).exp().sum(dim, keepdim=True).log() + largest
    return result if keepdim else result.squeeze(dim)


def rolled(function: Callable[..., Tensor], x: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """`torch.roll`, also along dimensions that masks leave alone, which PyTorch does not export."""
    shifted, along = ((each,) if isinstance(each, int) else tuple(each or ()) for each in (shifts, dims))
    is_alike = len(shifted) == len(along) > 0
    if not _is_sized_by_data(x) or not is_alike or any(type(x.shape[dim]) is not int for dim in along):
        return function(x, shifts) if dims is None else function(x, shifts, dims)
    for shift, dim in zip(shifted, along, strict=True):
        start = -shift % x.shape[dim]
        x = torch.cat([x.narrow(dim, start, x.shape[dim] - start), x.narrow(dim, 0, start)], dim)
    return x


def _counted(end: Any, size: int) -> Any:
    """A place from the front."""
    if isinstance(end, Tensor):
        return torch.where(end < 0, end + size, end)
    return end + size if end < 0 else end


def _is_sized_by_data(value: Any) -> bool:
    return isinstance(value, Tensor) and any(type(size) is not int for size in value.shape)
