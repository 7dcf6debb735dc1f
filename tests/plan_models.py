"""What plans are resolved against: a model's state, modules and inputs, and the pieces that ranks hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from dmc.mesh import Mesh
from dmc.plans import Plan, ResolvedPlan, resolve
from dmc.plans.layout import AxisUse, Layout
from dmc.program.signature import Role, StateSpec, TensorSpec
from tests.models import build


@dataclass(frozen=True)
class Described:
    """A model as `resolve` sees it."""

    state: tuple[StateSpec, ...]
    modules: tuple[str, ...]
    batch: tuple[TensorSpec, ...]

    def resolve(self, plan: Plan, accumulate: int = 1) -> ResolvedPlan:
        """`plan` applied to this model."""
        return resolve(plan, self.state, self.modules, self.batch, accumulate)


def describe(name: str) -> Described:
    """The test model `name`, tied tensors once, with the inputs of its example."""
    case = build(name, 0.0)
    example = case.example(0)
    inputs = example if isinstance(example, dict) else dict(zip(("tokens", "targets"), example, strict=True))
    batch = tuple(TensorSpec(key, "i64", tuple(tensor.shape)) for key, tensor in inputs.items())
    return Described(state_of(case.model), tuple(name for name, _ in case.model.named_modules()), batch)


def state_of(model: nn.Module) -> tuple[StateSpec, ...]:
    """The parameters and buffers of a model, tied ones once, by their first name."""
    parameters = _specs(model.named_parameters(remove_duplicate=False), "parameter")
    return (*parameters, *_specs(model.named_buffers(remove_duplicate=False), "buffer"))


def _specs(named: Iterable[tuple[str, Any]], role: Role) -> list[StateSpec]:
    tensors: dict[int, tuple[Any, list[str]]] = {}
    for name, tensor in named:
        tensors.setdefault(id(tensor), (tensor, []))[1].append(name)
    return [
        StateSpec(names[0], "f32", tuple(tensor.shape), role, aliases=tuple(names[1:]))
        for tensor, names in tensors.values()
    ]


def piece(whole: np.ndarray[Any, Any], layout: Layout, mesh: Mesh, rank: int) -> np.ndarray[Any, Any]:
    """What `rank` holds of `whole`: the definitions of `AxisUse` and `Layout`, word by word."""
    index = mesh.coordinates(rank)
    for dim, uses in enumerate(layout.dims):
        for use in uses:
            whole = _kept(whole, dim, use, mesh.axis_size(use.axis), index[use.axis])
    return whole


def _kept(whole: np.ndarray[Any, Any], dim: int, use: AxisUse, ranks: int, index: int) -> np.ndarray[Any, Any]:
    before, after = whole.shape[:dim], whole.shape[dim + 1 :]
    blocks = whole.reshape(*before, use.blocks, ranks, -1, *after)
    return blocks.take(index, axis=dim + 1).reshape(*before, whole.shape[dim] // ranks, *after)
