"""The optimizer of a request, as a `torch.optim` one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dmc import optim

_OPTIONS = {
    "SGD": ("momentum", "dampening", "nesterov"),
    "Adam": ("betas", "eps"),
    "AdamW": ("betas", "eps"),
}


def torch_optimizer(given: Any, parameters: Mapping[str, Tensor]) -> tuple[torch.optim.Optimizer, float | None]:
    """A `torch.optim` optimizer of these parameters equivalent to `given`, and the clipping norm, if any.

    A `torch.optim` instance is copied with its state; its parameters stay the same objects.
    """
    if isinstance(given, optim.Optimizer):
        return _of_settings(given, parameters), given.clip_grad_norm
    if isinstance(given, optim.FromTorch):
        return _copied(given.optimizer), given.clip_grad_norm
    return _copied(given), None


def rates_of(optimizer: torch.optim.Optimizer) -> list[float]:
    """Learning rates, by group, that reveal the gradients.

    SGD subtracts the gradient times the rate from a parameter: the largest rate becomes 1, so that the gradient is not
    lost in the parameter's rounding. Adam keeps the gradient in its state, so its rates stay; only rates of zero, as at
    the start of a warm-up, are replaced.
    """
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    if not (largest := max(rates, default=0.0)):
        return [1e-3] * len(rates)
    return [rate / largest for rate in rates] if isinstance(optimizer, torch.optim.SGD) else rates


def _of_settings(given: optim.Optimizer, parameters: Mapping[str, Tensor]) -> torch.optim.Optimizer:
    kind = type(given).__name__
    free = dict(parameters)
    groups: list[dict[str, Any]] = []
    for group in given.groups:
        members = [name for name in free if group.matches(name)]
        own = {"lr": group.lr, "weight_decay": group.weight_decay}
        settings = {name: value for name, value in own.items() if value is not None}
        groups.append({"params": [free.pop(name) for name in members], **settings})
    options = {name: getattr(given, name) for name in ("lr", "weight_decay", *_OPTIONS[kind])}
    return getattr(torch.optim, kind)([{"params": list(free.values())}, *groups], **options)


def _copied(given: torch.optim.Optimizer) -> torch.optim.Optimizer:
    groups = [{**group, "params": list(group["params"])} for group in given.param_groups]
    # Each group has all of its settings; the constructor requires a default all the same.
    kind: Any = type(given)
    new = kind(groups, lr=given.defaults["lr"])
    for parameter, state in given.state.items():
        new.state[parameter] = {name: _state(value, parameter, name) for name, value in state.items()}
    return new


def _state(value: Any, parameter: Any, name: str) -> Any:
    """A copy, in the parameter's type; step counts keep their own type."""
    if not isinstance(value, Tensor) or name == "step":
        return copy.deepcopy(value)
    return value.detach().clone().to(parameter.dtype)
