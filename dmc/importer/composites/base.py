"""A composite: an op worth keeping whole, with its definition in PyTorch.

`@composite("gelu(Tensor x, str approximate) -> Tensor")` makes `torch.ops.dmc.gelu`. Autograd and tracing see one op;
torch-mlir passes it through as `torch.operator "torch.dmc.gelu"`, which becomes `dm.composite` with the same name. The
decorated function is its definition: eager PyTorch runs it, fake tensors get their shapes from it, and it is imported
as the composite's decomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

NAMESPACE = "dmc"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")

Definition = Callable[..., Any]
# (ctx, inputs, output) saves what the backward pass reads; (ctx, *output gradients) returns one gradient per input.
SetupContext = Callable[[Any, tuple[Any, ...], Any], None]
Backward = Callable[..., Any]


@dataclass(frozen=True)
class Composite:
    """One composite: `name` may include an overload ("optimizer_update.adamw"); `arguments` are the schema's names."""

    name: str
    arguments: tuple[str, ...]
    definition: Definition


REGISTRY: dict[str, Composite] = {}


def composite(schema: str) -> Callable[[Definition], Definition]:
    """Registers the decorated function as the definition of the composite that `schema` declares.

    Raises ValueError if the name is taken.
    """
    name = schema.split("(", 1)[0]
    if name in REGISTRY:
        raise ValueError(f"composite name taken: {name}")
    LIBRARY.define(schema)
    overload = getattr(getattr(torch.ops, NAMESPACE), name).default
    arguments = tuple(argument.name for argument in overload._schema.arguments)

    def register(definition: Definition) -> Definition:
        LIBRARY.impl(name, definition, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{NAMESPACE}::{name}", _shapes_of(definition), lib=LIBRARY)
        REGISTRY[name] = Composite(name, arguments, definition)
        return definition

    return register


def sum_over(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """The sum over `dims`; over no dimension if `dims` is empty, where PyTorch would sum over all."""
    return x.sum(dims) if dims else x


def _shapes_of(definition: Definition) -> Definition:
    """`definition` on fake tensors; cached by kind of arguments, because layers repeat."""
    known: dict[Any, Any] = {}

    def fake(*arguments: Any) -> Any:
        key = tuple(_kind(argument) for argument in arguments)
        if key not in known:
            known[key] = pytree.tree_map_only(torch.Tensor, _kind, definition(*arguments))
        return pytree.tree_map_only(_Kind, _Kind.tensor, known[key])

    return fake


@dataclass(frozen=True)
class _Kind:
    """All that is known about a fake tensor."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Kind(tuple(value.shape), value.stride(), value.dtype)
    return tuple(value) if isinstance(value, list) else value


def differentiable(name: str, setup: SetupContext, backward: Backward) -> None:
    """Gives the composite `name` its backward pass, itself made of composites."""
    torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=setup, lib=LIBRARY)
