"""A composite: an op worth keeping whole, with its definition in PyTorch.

`@composite("gelu(Tensor x, str approximate) -> Tensor")` makes `torch.ops.dmc.gelu`. Autograd and tracing see one op;
torch-mlir passes it through as `torch.operator "torch.dmc.gelu"`, which becomes `dm.composite` with the same name. The
decorated function is its definition: eager PyTorch runs it, fake tensors get their shapes from it, and it is imported
as the composite's decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
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


def differentiable(name: str, setup: SetupContext, backward: Backward, is_linear: bool = False) -> None:
    """Gives the composite `name` its backward pass, itself made of composites.

    A gradient that is differentiated again is that of the definition: what `setup` saves of the results has no gradient
    of its own. is_linear: `backward` reads none, and is differentiable itself.
    """
    definition = REGISTRY[name].definition

    def setup_both(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        setup(ctx, inputs, output)
        constant = {id(each) for each in ctx.non_differentiable or ()}
        ctx.arguments, ctx.varies = inputs, [id(each) not in constant for each in pytree.tree_leaves(output)]

    def either(ctx: Any, *gradients: Any) -> Any:
        if is_linear or not torch.is_grad_enabled():
            return backward(ctx, *gradients)
        return gradients_of(definition, ctx.arguments, compress(gradients, ctx.varies), ctx.varies)

    torch.library.register_autograd(f"{NAMESPACE}::{name}", either, setup_context=setup_both, lib=LIBRARY)


def differentiable_by_definition(name: str) -> None:
    """Lets the composite `name`, a gradient, be differentiated again."""
    definition = REGISTRY[name].definition

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.arguments = inputs

    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients_of(definition, ctx.arguments, gradients)

    torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=setup, lib=LIBRARY)


def gradients_of(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    gradients: Iterable[torch.Tensor],
    varies: Sequence[bool] | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each argument of `function`, itself differentiable, from those of its results. varies: which
    results have one."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # A tensor may be several arguments.
        own = [each.view_as(each) if isinstance(each, torch.Tensor) else each for each in arguments]
        results = pytree.tree_leaves(function(*own))
        results = results if varies is None else list(compress(results, varies))
        wanted = [each for each in own if isinstance(each, torch.Tensor) and each.requires_grad]
        found = torch.autograd.grad(results, wanted, list(gradients), create_graph=again, allow_unused=True)
    by_identity = dict(zip(map(id, wanted), found, strict=True))
    return tuple(by_identity.get(id(each)) for each in own)
