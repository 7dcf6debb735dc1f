"""What is known of a model before it is planned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import nn

from dmc import optim
from dmc.importer.forward.precision import Precision
from dmc.search.layers import Repeated, repeated_layers
from dmc.search.problem import Problem

# Weights of experts are [experts, …, …].
_OF_EXPERTS = 3
_BLOCK = re.compile(r"(?:(?!\d+(?:\.|$))\w+\.)*\d+")
_HEADS = ("num_attention_heads", "n_head", "num_heads")


@dataclass(frozen=True)
class Facts:
    """layers: those that repeat. blocks: modules at which a stage may begin. norms: patterns of the norms between
    layers' parts, of `width` elements. heads, experts: how many; 0 where the model has none, or nothing says.
    expert_weights: patterns.

    Bytes of the whole model: weights, of which those that are trained, what training keeps beside them (optimizer), and
    of gradients that all exist at one time, since their norm is clipped.
    """

    layers: tuple[Repeated, ...]
    blocks: int
    norms: tuple[str, ...]
    width: int
    heads: int
    experts: int
    expert_weights: tuple[str, ...]
    weights: int
    trained: int
    optimizer: int
    gradients: int

    @property
    def patterns(self) -> str:
        """A pattern of the layers that repeat; "" where none do."""
        return "|".join(dict.fromkeys(f".{each.prefix}*" for each in self.layers))


def facts_of(problem: Problem) -> Facts:
    """What the model says of itself. Raises DmcError for an optimizer that is not supported."""
    model, layers = problem.model, repeated_layers(problem.model)
    size = 2 if problem.precision is Precision.BF16 else 4
    resolved = optim.plan_for(model, problem.optimizer)
    trained = {name: each for name, each in model.named_parameters() if name in resolved.group_of}
    slots = [slot for name, each in trained.items() for slot in resolved.slots(name, tuple(each.shape), 0)]
    experts, norms = dict(_expert_weights(model)), _norms(model, layers)
    clipped = resolved.clip_grad_norm is not None
    return Facts(
        layers=layers,
        blocks=sum(_BLOCK.fullmatch(name) is not None for name, _ in model.named_modules()),
        norms=tuple(norms),
        width=max(norms.values(), default=0),
        heads=_heads(model),
        experts=min(experts.values(), default=0),
        expert_weights=tuple(experts),
        weights=sum(each.numel() for each in model.parameters()) * size,
        trained=sum(each.numel() for each in trained.values()) * size,
        # Floating-point state; what has no dimension is a number.
        optimizer=sum(prod(slot.shape) for slot in slots if slot.shape) * size,
        gradients=sum(each.numel() for each in trained.values()) * size if clipped else 0,
    )


def _norms(model: nn.Module, layers: tuple[Repeated, ...]) -> dict[str, int]:
    """Patterns of the norms of full width in layers, and of those beside the layers' list, as one behind the last."""
    sizes = {path: size for path, module in model.named_modules() if (size := _norm_size(module))}
    inside = {path: size for path, size in sizes.items() if any(path.startswith(each.prefix) for each in layers)}
    width = max(inside.values(), default=0)
    found: dict[str, int] = {}
    for each in layers:
        beside = each.path.rpartition(".")[0]
        for path, size in sizes.items():
            if size != width:
                continue
            if path.startswith(each.prefix) and "." in path.removeprefix(each.prefix):
                _, _, rest = path.removeprefix(each.prefix).partition(".")
                found[f".{each.prefix}*.{rest}"] = width
            elif path.rpartition(".")[0] == beside:
                found[f".{path}"] = width
    return found


def _norm_size(module: nn.Module) -> int:
    """The elements that a norm over the last dimension has weights for; 0 for another module."""
    weight = getattr(module, "weight", None)
    is_norm = "Norm" in type(module).__name__ and not isinstance(module, nn.modules.batchnorm._BatchNorm)  # pyright: ignore
    return weight.numel() if is_norm and isinstance(weight, torch.Tensor) and weight.dim() == 1 else 0


def _heads(model: nn.Module) -> int:
    """Heads of attention, as the configuration or its modules say."""
    config: Any = getattr(model, "config", None)
    said = [count for name in _HEADS if isinstance(count := getattr(config, name, None), int)]
    own = [each.num_heads for each in model.modules() if isinstance(each, nn.MultiheadAttention)]
    return min([*said, *own], default=0)


def _expert_weights(model: nn.Module) -> Iterator[tuple[str, int]]:
    """Patterns of weights that have a dimension of experts, and how many these are."""
    for name, parameter in model.named_parameters():
        if "expert" in name and parameter.dim() == _OF_EXPERTS:
            yield re.sub(r"\.\d+\.", ".*.", f".{name}"), parameter.shape[0]


def split_bytes(facts: Facts, over: Mapping[str, int]) -> dict[str, int]:
    """What a rank holds at least, by its name: the bytes of each part over the ranks that share it."""
    parts = {"weights": facts.weights, "optimizer state": facts.optimizer, "gradients": facts.gradients}
    return {name: size // over[name] for name, size in parts.items()}
