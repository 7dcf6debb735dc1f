"""What stands for tensors of which masks decide the sizes: whole ones, and what is chosen of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sympy
import torch
from torch import Tensor

from dmc.errors import ImportFailure

ALONG_CHOSEN = "works along a dimension whose size a mask decides"
WAY_OUT = (
    "compute it of whole tensors: torch.where(mask, x, 0.0) instead of x[mask], (x * mask).sum() / mask.sum() instead "
    "of x[mask].mean(), mask.sum() instead of len(x[mask])"
)
# Of no elements: inside the domain of most functions.
_NEUTRAL = 0.5


@dataclass(frozen=True, eq=False)
class Choice:
    """Some of `size` places in a row: those where `mask` [size] is true."""

    mask: Tensor

    @cached_property
    def size(self) -> int:
        """How many places there are."""
        return self.mask.shape[0]

    @cached_property
    def count(self) -> Tensor:
        """How many are chosen, an int64 []."""
        return self.mask.sum()

    @cached_property
    def ranks(self) -> Tensor:
        """How many places before each one are chosen, int64 [size]."""
        return self.mask.to(torch.int64).cumsum(0) - 1

    @cached_property
    def first(self) -> Tensor:
        """The first place that is chosen, int64 [1]; 0 where none is."""
        return self.mask.to(torch.int32).argmax(0, keepdim=True)


@dataclass(frozen=True)
class Extent:
    """The places along a dimension: row-major [before, choice, after]."""

    choice: Choice
    before: int = 1
    after: int = 1

    @property
    def whole(self) -> int:
        """How many places there are, chosen or not."""
        return self.before * self.choice.size * self.after

    @property
    def mask(self) -> Tensor:
        """Which are chosen [whole]."""
        inner = self.choice.mask
        if self.before == self.after == 1:
            return inner
        return inner.reshape(1, -1, 1).expand(self.before, -1, self.after).reshape(-1)

    @property
    def count(self) -> Tensor:
        """How many are chosen, an int64 []."""
        return self.choice.count * (self.before * self.after)

    @property
    def first(self) -> Tensor:
        """The first chosen place, int64 [1]."""
        return self.choice.first * self.after


Extents = tuple[Extent | None, ...]
Sizes = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Chosen:
    """A tensor as the model sees it: those places of a whole one that extents choose, by dimension.

    sizes: of the dimensions, as recorded: numbers, or expressions of symbols. is_raw: whether places that are not
    chosen may hold anything; else they hold what a chosen place does, or a function of that, so that no function of
    them is less finite. are_ranks: whether it is `arange` of as many as are chosen, each at its own place.
    """

    tensor: Tensor
    extents: Extents
    sizes: Sizes
    is_raw: bool = False
    are_ranks: bool = False

    @property
    def dims(self) -> list[int]:
        """Dimensions of which a mask decides the size."""
        return [dim for dim, extent in enumerate(self.extents) if extent is not None]

    def mask(self, dims: Sequence[int] | None = None) -> Tensor:
        """Which elements are chosen along the dimensions, by default along all; it broadcasts with the tensor."""
        masks = [self._along(dim) for dim in (self.dims if dims is None else dims)]
        result = masks[0]
        for each in masks[1:]:
            result = result & each
        return result

    @cached_property
    def filled(self) -> Tensor:
        """The whole tensor, with the first chosen element at places that are not chosen, which have no gradient."""
        result = self.tensor
        for dim in self.dims if self.is_raw else []:
            extent = self.extents[dim]
            assert extent is not None
            fill = result.detach().index_select(dim, extent.first)
            neutral = _NEUTRAL if fill.is_floating_point() else 0
            fill = torch.where(extent.choice.count > 0, fill, torch.full_like(fill, neutral))
            result = torch.where(self._along(dim), result, fill)
        return result

    def with_value(self, value: Any, dims: Sequence[int] | None = None) -> Tensor:
        """The whole tensor, with `value` at places that are not chosen along the dimensions, by default along all."""
        return self.with_values(dict.fromkeys(self.dims if dims is None else dims, value))

    def with_values(self, values: Mapping[int, Any]) -> Tensor:
        """The whole tensor, with values at places that are not chosen along their dimensions."""
        result = self.tensor if set(values) == set(self.dims) else self.filled
        for value in dict.fromkeys(values.values()):
            mask = self.mask([dim for dim, each in values.items() if each == value])
            result = torch.where(mask, result, torch.full([], value, dtype=result.dtype))
        return result

    def _along(self, dim: int) -> Tensor:
        extent = self.extents[dim]
        assert extent is not None
        return extent.mask.reshape([-1 if each == dim else 1 for each in range(self.tensor.dim())])


@dataclass(frozen=True, eq=False)
class Count:
    """A number that masks decide, an int64 [] or a float. extent: of what it is the size, if of anything. size: as
    recorded."""

    tensor: Tensor
    extent: Extent | None = None
    size: Any = None


@dataclass
class Choices:
    """Those of one run. wholes: by symbol, how many places a size of that symbol is chosen from."""

    wholes: dict[Any, int] = field(default_factory=dict[Any, int])
    made: dict[Hashable, tuple[Any, Choice]] = field(default_factory=dict[Hashable, tuple[Any, Choice]])

    def choice(self, key: Hashable, kept: Any, mask: Callable[[], Tensor]) -> Choice:
        """The choice of this key, made where there is none. kept: what the key is the identity of."""
        if key not in self.made:
            self.made[key] = (kept, Choice(mask()))
        return self.made[key][1]

    def whole(self, size: Any) -> int:
        """How many places a recorded size is chosen from."""
        if isinstance(size, int):
            return size
        unknown = [symbol for symbol in size.free_symbols if symbol not in self.wholes]
        if unknown:
            raise refused("has a size that is decided by data, but not by a mask")
        return int(size.subs({symbol: self.wholes[symbol] for symbol in size.free_symbols}))


def size_of(size: Any) -> Any:
    """A recorded size as a number, or as an expression."""
    if isinstance(size, int):
        return size
    expression = sympy.sympify(size.node.expr)
    return int(expression) if expression.is_Integer else expression


def sizes_of(recorded: Tensor) -> Sizes:
    """Those of a recorded tensor."""
    return tuple(size_of(size) for size in recorded.shape)


def is_sized_by_data(recorded: Any) -> bool:
    """Whether a recorded value is a tensor of which data decide a size."""
    return isinstance(recorded, Tensor) and any(type(size) is not int for size in recorded.shape)


def lowest(dtype: torch.dtype) -> Any:
    """What no number of the type is below."""
    return -math.inf if dtype.is_floating_point else False if dtype == torch.bool else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> Any:
    """What no number of the type is above."""
    return math.inf if dtype.is_floating_point else True if dtype == torch.bool else torch.iinfo(dtype).max


def refused(fact: str, hint: str = WAY_OUT) -> ImportFailure:
    """The error for an operation on what a mask chooses."""
    return ImportFailure(None, fact, hint)
