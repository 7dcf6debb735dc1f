"""Largest and smallest elements as PyTorch finds them: sorted, NaN is larger than every number; a minimum is NaN, too.

Written as comparisons with a range and a reduction, without a sort, whose order is not deterministic on some backends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
# A round finds one element of each row; ranking all takes few operations, each on all pairs of a row's elements.
MAX_ROUNDS, FEW_ROUNDS, PAIRS_A_ROUND = 64, 4, 16


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The first k elements of each row, in order, and their indices; ties go to the lowest index."""
    if x.dim() and (k > MAX_ROUNDS or FEW_ROUNDS < k >= x.shape[dim] / PAIRS_A_ROUND):
        return _ranked(x, dim, range(k), largest)
    if x.dim() == 0:
        return x.expand([]), torch.zeros([], dtype=torch.int64, device=x.device)
    order = Order.of(x, dim % x.dim(), largest, nan_first=largest)
    if k == 0:
        return tuple(each.expand(x.shape).narrow(order.dim, 0, 0) for each in (x, order.places))  # pyright: ignore
    # By position, not by value, which another element may share: a selected element is no longer free.
    free = torch.ones_like(x, dtype=torch.bool)
    places: list[Tensor] = []
    for _ in range(k):
        places.append(order.first(free))
        free = free & (places[-1] != order.places)
    return torch.cat([order.value(place) for place in places], order.dim), torch.cat(places, order.dim)


def ranks(x: Tensor, largest: bool = False) -> Tensor:
    """How many elements come before each of a row, the last dimension, when it is sorted; NaN is larger than all."""
    mine, other = x.unsqueeze(-1), x.unsqueeze(-2)
    above, below = (other > mine, other < mine) if largest else (other < mine, other > mine)
    if x.is_floating_point():
        no_number, is_number = (mine != mine, other == other)
        above, below = (
            (above | (other != other) & ~no_number, below | no_number & is_number)
            if largest
            else (above | no_number & is_number, below | (other != other) & ~no_number)
        )
    place = torch.arange(x.shape[-1], device=x.device)
    earlier = place < place.unsqueeze(1)
    return (above | ~below & earlier).to(torch.int64).sum(-1)


def _ranked(x: Tensor, dim: int, wanted: range, largest: bool) -> tuple[Tensor, Tensor]:
    """The elements of these ranks in each row, and their indices; in a long row, comparing all with all."""
    row = x.movedim(dim, -1)
    hit = ranks(row, largest).unsqueeze(-2) == torch.arange(wanted.start, wanted.stop, device=x.device).unsqueeze(1)
    values = _chosen(hit, row.unsqueeze(-2), -1, keepdim=False)
    places = torch.where(hit, torch.arange(row.shape[-1], device=x.device), 0).sum(-1)
    return values.movedim(-1, dim), places.movedim(-1, dim)


def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower of the middle elements of each row, or its first NaN, and its index."""
    return _middle(x, dim, keepdim, skips_nan=False)


def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The same, of the elements that are not NaN."""
    return _middle(x, dim, keepdim, skips_nan=True)


def _middle(x: Tensor, dim: int, keepdim: bool, skips_nan: bool) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64, device=x.device)
    row = x.movedim(dim, -1)
    count = (row == row).to(torch.int64).sum(-1, keepdim=True)
    wanted = (count - 1).clamp(min=0) // 2
    if not skips_nan:
        # NaN comes after all numbers: its first one is the median where there is one.
        wanted = torch.where(count < row.shape[-1], count, wanted)
    hit = ranks(row) == wanted
    value = _chosen(hit, row, -1)
    place = torch.where(hit, torch.arange(row.shape[-1], device=x.device), 0).sum(-1, keepdim=True)
    value, place = (each.movedim(-1, dim) for each in (value, place))
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent element of each row, the least of several, and its last index."""
    if x.dim() == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64, device=x.device)
    row = x.movedim(dim, -1)
    count = (row.unsqueeze(-1) == row.unsqueeze(-2)).to(torch.int64).sum(-1)
    often = count == count.amax(-1, keepdim=True)
    least = torch.where(often, row, worst(x.dtype, largest=False)).to(x.dtype).amin(-1, keepdim=True)
    places = torch.arange(row.shape[-1], device=x.device)
    # NaN equals nothing, so it is least only in rows of NaN alone.
    place = torch.where(row == least, places, torch.where(least == least, -1, 0)).amax(-1, keepdim=True)
    value = _chosen(place == places, row, -1)
    value, place = (each.movedim(-1, dim) for each in (value, place))
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """All elements of each row in order, and their indices; the sort is stable."""
    if not x.numel():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    if not x.dim():
        return topk(x, 1, dim, largest=descending)
    return _ranked(x, dim, range(x.shape[dim]), descending)


def stable_sort(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The same."""
    return sort(x, dim, descending)


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th element of each row in order, and its index."""
    if x.dim() == 0:
        return topk(x, 1)
    value, place = _ranked(x, dim, range(k - 1, k), largest=False)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The largest element of each row, and its first index."""
    return _extreme(x, dim, keepdim, largest=True)


def min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest element of each row (NaN where there is one), and its first index."""
    return _extreme(x, dim, keepdim, largest=False)


def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first index of the largest element; without `dim`, in the flattened tensor."""
    return _arg(x, dim, keepdim, largest=True)


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The first index of the smallest element, or of NaN; without `dim`, in the flattened tensor."""
    return _arg(x, dim, keepdim, largest=False)


@dataclass(frozen=True)
class Order:
    """The rows of `x` along `dim`, sorted with the largest or smallest elements first, NaN before or after all of them.

    `places` is a range along `dim`.
    """

    x: Tensor
    dim: int
    places: Tensor
    largest: bool
    nan_first: bool

    @staticmethod
    def of(x: Tensor, dim: int, largest: bool, nan_first: bool) -> Order:
        """The sort order of `x`."""
        view = [1] * x.dim()
        view[dim] = x.shape[dim]
        return Order(x, dim, torch.arange(x.shape[dim], device=x.device).view(view), largest, nan_first)

    def first(self, free: Tensor) -> Tensor:
        """The first index, per row, of the best `free` element, kept as a dimension of 1."""
        if not self.x.is_floating_point():
            return self._first(free & self._is_best(self.x, free))
        wide = self.x.float()
        nan = wide != wide
        number = free & ~nan
        best = number & self._is_best(wide, number)
        if self.nan_first:
            return self._first(torch.where(self._any(free & nan), free & nan, best))
        return self._first(torch.where(self._any(number), best, free & nan))

    def value(self, place: Tensor) -> Tensor:
        """The element of `x` at one index per row."""
        return _chosen(place == self.places, self.x, self.dim)

    def _is_best(self, x: Tensor, among: Tensor) -> Tensor:
        # Nothing is below the least integer: elements not `among` are masked again in the search for the best.
        candidates = torch.where(among, x, worst(x.dtype, self.largest)).to(x.dtype)
        reduce = torch.amax if self.largest else torch.amin
        return x == reduce(candidates, self.dim, keepdim=True)

    def _any(self, mask: Tensor) -> Tensor:
        return mask.to(torch.int64).sum(self.dim, keepdim=True) > 0

    def _first(self, mask: Tensor) -> Tensor:
        return torch.where(mask, self.places, self.x.shape[self.dim]).amin(self.dim, keepdim=True)


def _chosen(hit: Tensor, x: Tensor, dim: int, keepdim: bool = True) -> Tensor:
    """The only element of each row that is hit, bit for bit: a sum would lose the sign of a zero."""
    if x.is_floating_point():
        return torch.where(hit, x, -math.inf).to(x.dtype).amax(dim, keepdim)
    return torch.where(hit, x, torch.zeros_like(x)).sum(dim, keepdim).to(x.dtype)


def worst(dtype: torch.dtype, largest: bool) -> float:
    """What no element is less than, or, of the smallest, more."""
    if dtype.is_floating_point:
        return -math.inf if largest else math.inf
    if dtype == torch.bool:
        return not largest
    return torch.iinfo(dtype).min if largest else torch.iinfo(dtype).max


def _extreme(x: Tensor, dim: int, keepdim: bool, largest: bool) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros([], dtype=torch.int64, device=x.device)
    order = Order.of(x, dim % x.dim(), largest, nan_first=True)
    place = order.first(torch.ones_like(x, dtype=torch.bool))
    value = order.value(place)
    return (value, place) if keepdim else (value.squeeze(order.dim), place.squeeze(order.dim))


def _arg(x: Tensor, dim: int | None, keepdim: bool, largest: bool) -> Tensor:
    if dim is not None:
        return _extreme(x, dim, keepdim, largest)[1]
    place = _extreme(x.reshape(-1), 0, False, largest)[1]
    return place.view([1] * x.dim()) if keepdim else place


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of `bins` equal parts of [min, max]; of all elements' range if that is empty."""
    x = x.reshape(-1)
    low, high = x.new_full([], min), x.new_full([], max)
    if min == max:
        low, high = x.amin(), x.amax()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    place = ((x - low) * bins / (high - low)).to(torch.int64).clamp(max=bins - 1)
    is_inside = (x >= low) & (x <= high)
    each = torch.arange(bins, device=x.device).unsqueeze(1)
    return ((place == each) & is_inside).to(torch.int64).sum(1).to(x.dtype)


def searchsorted(
    boundaries: Tensor,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each number of `x` belongs in its row of boundaries, or in the only one, by eager's binary search: the same
    with NaN, too, and where boundaries are not sorted.
    """
    right = right or side == "right"
    row = boundaries if sorter is None else boundaries.gather(-1, sorter)
    shape = x.shape if isinstance(x, Tensor) else ()
    first = torch.zeros(shape, dtype=torch.int64, device=row.device)
    end = torch.full_like(first, row.shape[-1])
    for _ in range(row.shape[-1].bit_length()):
        middle = (first + end) // 2
        place = middle.clamp(max=row.shape[-1] - 1)
        pivot = row.gather(-1, place) if row.dim() > 1 else row.index_select(0, place.reshape(-1)).view(shape)
        is_after = ~(pivot > x) if right else ~(pivot >= x)
        first, end = (
            torch.where((first < end) & is_after, middle + 1, first),
            torch.where((first < end) & ~is_after, middle, end),
        )
    return first.to(torch.int32) if out_int32 else first


def _bucketize(x: Any, boundaries: Tensor, **options: Any) -> Tensor:
    return searchsorted(boundaries, x, **options)


OWN: dict[Any, Callable[..., Any]] = {
    aten.searchsorted.Tensor: searchsorted,
    aten.searchsorted.Scalar: searchsorted,
    aten.bucketize.Tensor: _bucketize,
    aten.bucketize.Scalar: _bucketize,
    aten.histc.default: histc,
    aten.topk.default: topk,
    aten.sort.default: sort,
    aten.sort.stable: stable_sort,
    aten.kthvalue.default: kthvalue,
    aten.median.default: lambda x: median_dim(x.reshape(-1), 0)[0],
    aten.median.dim: median_dim,
    aten.nanmedian.default: lambda x: nanmedian_dim(x.reshape(-1), 0)[0],
    aten.nanmedian.dim: nanmedian_dim,
    aten.mode.default: mode,
    aten.max.dim: max_dim,
    aten.min.dim: min_dim,
    aten.argmax.default: argmax,
    aten.argmin.default: argmin,
}
