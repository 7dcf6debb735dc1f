"""The optimizer of a request, as optimizers of `torch.optim`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dmc import optim
from dmc.optim.base import known_options
from dmc.verification.lion import Lion

# State that is not of the parameter's type.
_SCALARS = ("step", "mu_product")


@dataclass(frozen=True)
class Optimizers:
    """Optimizers whose groups, one after the other, are those of the compiled step."""

    each: Sequence[torch.optim.Optimizer]

    def groups(self) -> list[dict[str, Any]]:
        """The parameter groups."""
        return [group for optimizer in self.each for group in optimizer.param_groups]

    def rates(self) -> list[float]:
        """Learning rates, by group, that reveal the gradients.

        SGD subtracts the gradient times the rate from a parameter: its largest rate becomes 1, so that the gradient is
        not lost in the parameter's rounding. Others keep the gradient in their state, so their rates stay; only rates
        of zero, as at the start of a warm-up, are replaced.
        """
        found: list[float] = []
        for optimizer in self.each:
            rates = [float(group["lr"]) for group in optimizer.param_groups]
            largest = max(rates, default=0.0)
            if not largest:
                rates = [1e-3] * len(rates)
            elif isinstance(optimizer, torch.optim.SGD):
                rates = [rate / largest for rate in rates]
            found += rates
        return found

    def step(self, rates: Sequence[float]) -> None:
        """One step at these rates, by group."""
        for group, rate in zip(self.groups(), rates, strict=True):
            group["lr"] = rate
        for optimizer in self.each:
            optimizer.step()

    def slots(self, names: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The state, by "<parameter>.<slot>"."""
        return {
            f"{name}.{slot}": value
            for name, tensor in names.items()
            for optimizer in self.each
            for slot, value in optimizer.state.get(tensor, {}).items()
            if isinstance(value, Tensor)
        }


def torch_optimizers(given: Any, parameters: Mapping[str, Tensor]) -> tuple[Optimizers, float | None]:
    """Optimizers of these parameters equivalent to `given`, and the clipping norm, if any; for None one of nothing.

    Instances of `torch.optim` are copied with their state; their parameters stay the same objects.
    """
    if given is None:
        return Optimizers([torch.optim.SGD([torch.zeros(())], lr=0.0)]), None
    if isinstance(given, optim.Over):
        return torch_optimizers(given.optimizer, given.of(parameters))
    if isinstance(given, optim.Optimizer):
        plan = optim.plan(given, parameters)
        return Optimizers([_of_group(plan, i, parameters) for i in range(len(plan.groups))]), given.clip_grad_norm
    outer = given if isinstance(given, optim.FromTorch) else optim.FromTorch(given)
    return Optimizers([_copied(each) for each in optim.several(outer.optimizer)]), outer.clip_grad_norm


def _of_group(plan: optim.Plan, number: int, parameters: Mapping[str, Tensor]) -> torch.optim.Optimizer:
    settings = plan.groups[number]
    members = [tensor for name, tensor in parameters.items() if plan.group_of.get(name) == number]
    return _kind_of(settings)([{"params": members}], **_options(settings))


def _kind_of(settings: optim.Optimizer) -> Any:
    name = type(settings).__name__
    return Lion if name == "Lion" else getattr(torch.optim, name)


def _options(settings: optim.Optimizer) -> dict[str, Any]:
    own = known_options(type(settings), vars(settings))
    # Muon has no such option; others have it in each group.
    return own if settings.maximize else {name: value for name, value in own.items() if name != "maximize"}


def _copied(given: torch.optim.Optimizer) -> torch.optim.Optimizer:
    groups = [{**group, "params": list(group["params"])} for group in given.param_groups]
    # Each group has all of its settings; the constructor requires a default all the same.
    kind: Any = type(given)
    new = kind(groups, lr=given.defaults["lr"])
    for parameter, state in given.state.items():
        new.state[parameter] = {name: _state(value, parameter, name) for name, value in state.items()}
    return new


def _state(value: Any, parameter: Any, name: str) -> Any:
    """A copy, in the parameter's type; scalars keep their own."""
    if not isinstance(value, Tensor) or name in _SCALARS:
        return copy.deepcopy(value)
    return value.detach().clone().to(parameter.dtype)
