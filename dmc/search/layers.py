"""Layers that repeat in a model, and copies of the model with fewer of them, on the device meta."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import nn

from dmc.optim.base import FromTorch

# Fewer equal modules in a row are not worth a plan of their own.
_FEWEST = 3


@dataclass(frozen=True)
class Repeated:
    """Equal modules in a row: members `first` to `first + count - 1` of the list at `path`."""

    path: str
    first: int
    count: int

    @property
    def prefix(self) -> str:
        """What the paths of the members begin with."""
        return f"{self.path}." if self.path else ""


def repeated_layers(model: nn.Module) -> tuple[Repeated, ...]:
    """The rows of at least three equal modules in lists and sequences of modules, those inside of others left out.

    Modules are equal that have one class, and parameters and buffers of the same names, shapes and types.
    """
    found: list[Repeated] = []
    for path, container in model.named_modules():
        inside = any(path != each.path and path.startswith(each.prefix) for each in found)
        if not inside and isinstance(container, nn.ModuleList | nn.Sequential):
            found += _rows(path, container)
    return tuple(found)


def with_depth(model: nn.Module, depths: Mapping[Repeated, int]) -> tuple[nn.Module, dict[int, Any]]:
    """A copy of the model on meta with only the first so many of each kind of layer, and its parameters by the `id` of
    the original ones. Buffers keep their numbers."""
    copies: dict[int, Any] = {id(each): _on_meta(each) for each in model.parameters()}
    own = dict(copies)
    made = copy.deepcopy(model, own)
    for kind in depths:
        container = made.get_submodule(kind.path)
        members = list(container.children())
        kept = members[: kind.first + depths[kind]] + members[kind.first + kind.count :]
        container._modules.clear()  # pyright: ignore[reportPrivateUsage] - lists cannot be cut in place otherwise
        for number, member in enumerate(kept):
            container.add_module(str(number), member)
    used = {id(each) for each in made.parameters()}
    return made, {key: each for key, each in copies.items() if id(each) in used}


def optimizer_of(optimizer: Any, parameters: Mapping[int, Any]) -> Any:
    """The optimizer for a copy of the model: `parameters` by the `id` of those that it holds. Those of `dmc.optim` hold
    none; what PyTorch's hold of other parameters is left out, and so is their state."""
    if isinstance(optimizer, FromTorch):
        return FromTorch(optimizer_of(optimizer.optimizer, parameters), optimizer.clip_grad_norm)
    if isinstance(optimizer, list):
        return [optimizer_of(each, parameters) for each in _as_list(optimizer)]
    if not isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    made = copy.copy(optimizer)
    made.param_groups = [
        {**group, "params": [parameters[id(each)] for each in group["params"] if id(each) in parameters]}
        for group in optimizer.param_groups
    ]
    made.state = type(optimizer.state)(optimizer.state.default_factory)  # pyright: ignore
    return made


def _as_list(given: Any) -> list[Any]:
    return given


def _on_meta(parameter: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)


def _rows(path: str, container: nn.Module) -> Iterator[Repeated]:
    first = 0
    for _, row in groupby(container.children(), _kind):
        count = len(list(row))
        if count >= _FEWEST:
            yield Repeated(path, first, count)
        first += count


def _kind(module: nn.Module) -> tuple[object, ...]:
    """Equal for equal modules."""
    named = (*module.named_parameters(), *module.named_buffers())
    inside = tuple(type(each) for each in module.modules())
    # Modules without state, as functions between layers, are no layers.
    own = () if named else (id(module),)
    return (type(module), inside, tuple((name, tuple(each.shape), each.dtype) for name, each in named), own)
