"""A call of an operation of which an operand is chosen by a mask, and the table of rules for such calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from dmc.importer.forward.chosen.values import (
    Choices,
    Chosen,
    Count,
    Extent,
    Extents,
    is_sized_by_data,
    refused,
    sizes_of,
)
from dmc.importer.torch_internals import argument_names, arguments_of, name_of, numbers_of

# Overloads of which an operand is a tensor where that of others is a number.
_OF_TENSORS = ("Tensor", "Tensor_Tensor")
# What gives of a whole size what it gives of a chosen one, and more.
_OF_SIZES = frozenset(
    "zeros ones full empty new_zeros new_ones new_full new_empty rand randn eye expand broadcast_to repeat".split()
)
_ENDS = "a slice may end at a number in a tensor, and rows may be chosen by a mask: x[: mask.sum()], x[mask]"
DIFFERENT = "combines elements that different masks choose"
AGREE = "choose both by the same mask, or make one tensor of them by torch.where(mask, x, y)"

Run = Callable[[Any, Any, Any], Any]
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Call:
    """recorded: the result as exported. run: runs an operation on whole tensors. is_written: whether the result, or
    what it is taken from, may be written later. conditions: takes what must hold, or the loss is NaN."""

    target: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    recorded: Any
    run: Run
    choices: Choices
    conditions: list[Any]
    is_written: bool

    @cached_property
    def name(self) -> str:
        """The name of the operation."""
        return name_of(self.target) if isinstance(self.target, OpOverload) else self.target.__name__

    @cached_property
    def given(self) -> dict[str, Any]:
        """The arguments by name, with defaults."""
        return arguments_of(self.target, self.args, self.kwargs)

    @cached_property
    def chosen(self) -> list[Chosen]:
        """The operands that masks choose."""
        return [each for each in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(each, Chosen)]

    @cached_property
    def extents(self) -> dict[Any, Extent]:
        """Those of the operands by recorded size. Raises ImportFailure where operands are chosen by different masks."""
        found: dict[Any, Extent] = {}
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        by_size = [(each.size, each.extent) for each in leaves if isinstance(each, Count)]
        by_size += [pair for each in self.chosen for pair in zip(each.sizes, each.extents, strict=True)]
        for size, extent in by_size:
            if extent is not None and found.setdefault(size, extent) != extent:
                raise refused(DIFFERENT, AGREE)
        return found

    def dim(self, value: int, rank: int | None = None) -> int:
        """A dimension of the first operand, counted from the front."""
        rank = self.chosen[0].tensor.dim() if rank is None else rank
        return value + rank if value < 0 else value

    def dims(self, value: Any) -> list[int]:
        """Dimensions of the first operand; all for none."""
        rank = self.chosen[0].tensor.dim()
        if value is None or value == []:
            return list(range(rank))
        return [self.dim(each) for each in ([value] if isinstance(value, int) else value)]

    def applied(self, changes: Mapping[str, Any] = _NONE, raw: bool = False) -> Any:
        """What the operation gives for whole operands. raw: whether it only moves elements. changes: arguments."""
        names = argument_names(self.target)
        args, kwargs = list(self.args), dict(self.kwargs)
        for name, value in changes.items():
            place = names.index(name)
            if place < len(args):
                args[place] = value
            else:
                kwargs[name] = value
        numbers = [each for each in numbers_of(self.target, args, kwargs) if isinstance(each, Count)]
        sizes = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Count)]
        if self.name not in _OF_SIZES and not all(any(each is number for number in numbers) for each in sizes):
            raise refused("takes how many elements a mask chooses", _ENDS)
        target = _of_tensors(self.target) if numbers else self.target
        args, kwargs = pytree.tree_map(lambda each: _whole(each, numbers, raw), (args, kwargs))
        return self.run(target, args, kwargs)

    def made(self, result: Any, raw: bool = False, recorded: Any = None) -> Any:
        """A result of whole operands, as chosen where it is recorded to be. raw: as in `Chosen`."""
        recorded = self.recorded if recorded is None else recorded
        if isinstance(recorded, tuple | list):
            return [self.made(own, raw, each) for own, each in zip(result, recorded, strict=True)]
        if not is_sized_by_data(recorded) or not isinstance(result, Tensor):
            return result
        sizes = sizes_of(recorded)
        extents: Extents = tuple(None if isinstance(size, int) else self._extent(size) for size in sizes)
        wholes = tuple(size if extent is None else extent.whole for size, extent in zip(sizes, extents, strict=True))
        if tuple(result.shape) != wholes:
            raise refused("mixes dimensions whose sizes masks decide with others")
        return Chosen(result, extents, sizes, is_raw=raw and any(each.is_raw for each in self.chosen))

    def kept(self, raw: bool = False) -> Any:
        """The result of an operation to which dimensions that masks choose are one row after the other."""
        check_aligned(self.chosen)
        result = self.made(self.applied(raw=raw), raw)
        open_sizes = [size for each in self.chosen for size in each.sizes if not isinstance(size, int)]
        if open_sizes and not any(isinstance(each, Chosen) for each in pytree.tree_leaves(result)):
            raise refused("chooses some rows of what a mask chooses")
        return result

    def unfilled(self, result: Tensor) -> Any:
        """As `made`, of a result whose places that are not chosen may hold anything."""
        made = self.made(result)
        if not isinstance(made, Chosen):
            return made
        unfilled = replace(made, is_raw=True)
        return replace(made, tensor=unfilled.filled) if self.is_written else unfilled

    def _extent(self, size: Any) -> Extent:
        if size not in self.extents:
            raise refused("gives as many elements as several masks choose")
        return self.extents[size]


Rule = Callable[[Call], Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operations of these names."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def check_aligned(operands: Sequence[Chosen], from_front: bool = False) -> None:
    """Raises ImportFailure where operands that broadcast are chosen by different masks. from_front: whether their first
    dimensions meet, rather than the last."""
    for one, other in itertools.pairwise(operands):
        sizes = min(one.tensor.dim(), other.tensor.dim())
        ends = [each.extents[:sizes] if from_front else each.extents[-sizes:] for each in (one, other) if sizes]
        if any(a is not None and b is not None and a != b for a, b in zip(*ends, strict=False)):
            raise refused(DIFFERENT, AGREE)


def _of_tensors(target: OpOverload) -> OpOverload:
    """The overload of an operation that takes a tensor for a number."""
    own = str(target).rpartition(".")[2]
    if own.startswith("Tensor") and "Scalar" not in own:
        return target
    packet = getattr(torch.ops.aten, name_of(target))
    found = [getattr(packet, each) for each in _OF_TENSORS if each in packet.overloads()]
    if not found:
        raise refused("computes with how many elements a mask chooses")
    return found[0]


def _whole(value: Any, numbers: Sequence[Count], raw: bool) -> Any:
    """An argument of whole tensors: those of `numbers` as tensors, other counts as sizes."""
    if isinstance(value, Chosen):
        return value.tensor if raw else value.filled
    if isinstance(value, Count):
        return value.tensor if any(value is each for each in numbers) else _size(value)
    return value


def _size(count: Count) -> int:
    if count.extent is None:
        raise refused("makes a tensor of a size that is computed of how many elements a mask chooses")
    return count.extent.whole
