"""A call of an operation of which an operand is chosen by a mask, and the table of rules for such calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from dmc.importer.forward.chosen.parts import AGREE, DIFFERENT, NOTHING_SAID, Operand, Parts, Takes, dimensions, rank_of
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

Run = Callable[[Any, Any, Any], Any]
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Call:
    """recorded: the result as exported. run: runs an operation on whole tensors. is_written: whether the result, or
    what it is taken from, may be written later. conditions: takes what must hold, or the loss is NaN. parts: how
    operands take part."""

    target: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    recorded: Any
    run: Run
    choices: Choices
    conditions: list[Any]
    is_written: bool
    parts: Parts = NOTHING_SAID

    @cached_property
    def name(self) -> str:
        """The name of the operation."""
        return name_of(self.target) if isinstance(self.target, OpOverload) else self.target.__name__

    @cached_property
    def given(self) -> dict[str, Any]:
        """The arguments by name, in order, with defaults."""
        if not isinstance(self.target, OpOverload):
            return inspect.signature(self.target).bind(*self.args, **self.kwargs).arguments
        found = arguments_of(self.target, self.args, self.kwargs)
        return {name: found[name] for name in argument_names(self.target) if name in found}

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """The tensors among the arguments, chosen or not: by name, those of lists by name and place, as "tensors.0"."""
        found: dict[str, Any] = {}
        for name, value in self.given.items():
            parts = enumerate(value) if isinstance(value, list | tuple) else ()
            found |= {name: value} | {f"{name}.{place}": each for place, each in parts}
        return {name: each for name, each in found.items() if isinstance(each, Tensor | Chosen)}

    @cached_property
    def chosen(self) -> list[Chosen]:
        """The operands that masks choose."""
        return [each for each in self.operands.values() if isinstance(each, Chosen)]

    @cached_property
    def along(self) -> dict[Any, Extent]:
        """What is chosen, by label. Raises ImportFailure as `Parts.extents`."""
        return self.parts.extents(self.operands)

    @cached_property
    def extents(self) -> dict[Any, Extent]:
        """What the result may be chosen by: by recorded size that of operands which keep it. Raises ImportFailure where
        operands of one size are chosen by different masks."""
        found: dict[Any, Extent] = {}
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        by_size = [(each.size, each.extent) for each in leaves if isinstance(each, Count)]
        by_size += [pair for each in self.chosen for pair in zip(each.sizes, each.extents, strict=True)]
        for size, extent in by_size:
            if extent is None or isinstance(size, int):
                continue
            if found.setdefault(size, extent) != extent:
                raise refused(DIFFERENT, AGREE)
        kept = {extent for label, extent in self.along.items() if label in self.parts.kept}
        kept |= {each.extent for each in leaves if isinstance(each, Count)}
        return {size: extent for size, extent in found.items() if extent in kept or self._is_unread(extent)}

    def dim(self, value: int, rank: int | None = None) -> int:
        """A dimension of the first operand, counted from the front."""
        rank = rank_of(next(iter(self.operands.values()))) if rank is None else rank
        return value + rank if value < 0 else value

    def dims(self, value: Any) -> list[int]:
        """Dimensions of the first operand; all for none."""
        if value is None or value == []:
            return list(range(rank_of(next(iter(self.operands.values())))))
        return [self.dim(each) for each in ([value] if isinstance(value, int) else value)]

    def whole(self, name: str) -> Tensor:
        """The whole tensor of an operand, as it takes part."""
        return self.parts.whole(name, self.operands[name])

    def applied(self, changes: Mapping[str, Any] = _NONE) -> Any:
        """What the operation gives for whole operands. changes: arguments."""
        names = argument_names(self.target) if isinstance(self.target, OpOverload) else tuple(self.given)
        args = [changes.get(name, value) for name, value in zip(names, self.args, strict=False)]
        later = names[len(args) :]
        kwargs = {**self.kwargs, **{name: value for name, value in changes.items() if name in later}}
        is_of_aten = isinstance(self.target, OpOverload)
        numbers = (
            [each for each in numbers_of(self.target, args, kwargs) if isinstance(each, Count)] if is_of_aten else []
        )
        sizes = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Count)]
        if self.name not in _OF_SIZES and not all(any(each is number for number in numbers) for each in sizes):
            raise refused("takes how many elements a mask chooses", _ENDS)
        target = _of_tensors(self.target) if numbers else self.target
        args = [self._whole(name, value, numbers) for name, value in zip(names, args, strict=False)]
        kwargs = {name: self._whole(name, value, numbers) for name, value in kwargs.items()}
        return self.run(target, args, kwargs)

    def made(self, result: Any, recorded: Any = None) -> Any:
        """A result of whole operands, as chosen where it is recorded to be."""
        recorded = self.recorded if recorded is None else recorded
        if isinstance(recorded, tuple | list):
            return [self.made(own, each) for own, each in zip(result, recorded, strict=True)]
        if not is_sized_by_data(recorded) or not isinstance(result, Tensor):
            return result
        sizes = sizes_of(recorded)
        extents: Extents = tuple(None if isinstance(size, int) else self._extent(size) for size in sizes)
        wholes = tuple(size if extent is None else extent.whole for size, extent in zip(sizes, extents, strict=True))
        if tuple(result.shape) != wholes:
            raise refused("mixes dimensions whose sizes masks decide with others")
        # Along a dimension that is filled and kept, what is not chosen has been computed of what is.
        is_raw = any(label in self.parts.fills and label in self.parts.kept for label in self.along)
        made = Chosen(result, extents, sizes, is_raw or (self.parts.moves and any(each.is_raw for each in self.chosen)))
        return replace(made, tensor=made.filled, is_raw=False) if is_raw and self.is_written else made

    def _extent(self, size: Any) -> Extent:
        if size not in self.extents:
            raise refused("gives as many elements as several masks choose")
        return self.extents[size]

    def _is_unread(self, extent: Extent) -> bool:
        unread = [self.operands[name] for name in self.parts.unread if name in self.operands]
        return any(isinstance(each, Chosen) and extent in each.extents for each in unread)

    def _whole(self, name: str, value: Any, numbers: Sequence[Count]) -> Any:
        """An argument of whole tensors: counts of `numbers` as tensors, others as sizes."""
        if isinstance(value, list | tuple):
            return [self._whole(f"{name}.{place}", each, numbers) for place, each in enumerate(value)]
        if isinstance(value, Chosen):
            return self.whole(name)
        if isinstance(value, Count):
            return value.tensor if any(value is each for each in numbers) else _size(value)
        return value


@dataclass(frozen=True)
class Rule:
    """How an operation is computed of what masks choose. takes: how its operands take part. compute: the result; by
    default what the operation gives for whole operands."""

    takes: Takes
    compute: Callable[[Call], Any]


def plain(call: Call) -> Any:
    """What the operation gives for whole operands."""
    return call.made(call.applied())


RULES: dict[str, Rule] = {}


def rule(*names: str, takes: Takes) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
    """Registers what computes operations of these names. takes: how their operands take part, of the call."""

    def register(function: Callable[[Call], Any]) -> Callable[[Call], Any]:
        RULES.update(dict.fromkeys(names, Rule(takes, function)))
        return function

    return register


def followed(call: Call, by: Rule) -> Any:
    """The result of a call by a rule. Raises ImportFailure where the rule does not say how each operand takes part, and
    where what meets, or what the result is said to be chosen by, is not chosen by one mask."""
    call = replace(call, parts=by.takes(call))
    extents = call.extents
    result = by.compute(call)
    found = [each for each in pytree.tree_leaves(result) if isinstance(each, Chosen)]
    own = {extent for each in found for extent, _ in dimensions(each) if extent is not None}
    if not call.parts.makes and not own <= {*extents.values()}:
        raise refused("has a rule whose result is chosen by what no operand is that it keeps")
    lost = [label for label, extent in call.along.items() if label in call.parts.kept and extent not in own]
    if not {*lost} <= {*call.parts.makes}:
        raise refused("chooses some rows of what a mask chooses")
    return result


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


def _size(count: Count) -> int:
    if count.extent is None:
        raise refused("makes a tensor of a size that is computed of how many elements a mask chooses")
    return count.extent.whole
