"""A compiled step as PyTorch users see it: torch tensors, schedulers, and the way back to `torch.optim`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from dmc.errors import StateError
from dmc.optim import SLOTS
from dmc.runtime.state import StateDict
from dmc.runtime.step import Step

Scheduler = TypeVar("Scheduler")
_SLOTS = tuple(dict.fromkeys(slot for slots in SLOTS.values() for slot in slots))


class CompiledStep(Step):
    """A compiled training step whose state dictionaries hold torch tensors; see `dmc.runtime.Step`."""

    def state_dict(self) -> StateDict:
        """A copy of the state: {"model": tensors by name, "optimizer": by "<parameter>.<slot>", "step", "seed"}.

        `model.load_state_dict(step.state_dict()["model"])` puts the trained parameters into the PyTorch model: the keys
        are those of `model.state_dict()`. What these leave out is in "other"; see `dmc.runtime.state.StateDict`.
        """
        state = super().state_dict()
        for part in (state["model"], state["optimizer"], state.get("other", {})):
            part.update({name: _to_tensor(array) for name, array in part.items()})
        return state

    def torch_optimizer_state(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
        """The state for `optimizer.load_state_dict`, with which eager training of `model` goes on as the step would.

        optimizer: of the same kind as the step's, for parameters of `model`; its groups and settings stay as they are.
        Raises StateError where it is of another kind, or has parameters that the step does not train.
        """
        trained = {spec.name for spec in self.signature.state if spec.role == "parameter"}
        names = {id(tensor): name for name, tensor in model.named_parameters()}
        held = [names.get(id(tensor), "") for group in optimizer.param_groups for tensor in group["params"]]
        if foreign := [name for name in held if name not in trained]:
            fact = f"has the parameter '{foreign[0]}', which the step does not train" if foreign[0] else _FOREIGN
            raise StateError("the optimizer", fact, hint="create it for the parameters that the step trains")
        state = self.state_dict()
        slots = {number: _slots_of(optimizer, state, name) for number, name in enumerate(held)}
        # Before its first step PyTorch has no state.
        return {**optimizer.state_dict(), "state": slots if state["step"] and any(slots.values()) else {}}

    def scheduler(self, make: Callable[..., Scheduler], **options: Any) -> Scheduler:
        """A PyTorch scheduler of this step's learning rates: `make(optimizer, **options)`.

        make: a class such as `torch.optim.lr_scheduler.CosineAnnealingLR`, or a function such as those of
        `transformers`. Pass it as `lr` to each step, then call its `step()` as usual:

            scheduler = step.scheduler(CosineAnnealingLR, T_max=100)
            loss = step(inputs, targets, lr=scheduler)
            scheduler.step()
        """
        rates = _Rates(self.signature.learning_rates)
        scheduler = make(rates, **options)
        # What PyTorch warns of otherwise: here the compiled step takes the optimizer's.
        rates.step()
        return scheduler


class _Rates(torch.optim.Optimizer):
    """Learning rates by group, for a scheduler. It has no other settings, such as a momentum that could be cycled."""

    def __init__(self, rates: tuple[float, ...]) -> None:
        groups = [{"params": [torch.zeros(())], "lr": rate, "initial_lr": rate} for rate in rates]
        super().__init__(groups, {})

    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """There is nothing to update."""


_FOREIGN = "has a parameter that does not belong to the model"


def _slots_of(optimizer: torch.optim.Optimizer, state: StateDict, name: str) -> dict[str, Any]:
    """The state of a parameter as `torch.optim` has it."""
    own = state["optimizer"]
    slots = {slot: own[f"{name}.{slot}"] for slot in _SLOTS if f"{name}.{slot}" in own}
    kinds = (torch.optim.Adam, torch.optim.AdamW) if "exp_avg" in slots else (torch.optim.SGD,)
    if not isinstance(optimizer, kinds):
        theirs = " or ".join(kind.__name__ for kind in kinds)
        fact = f"is {type(optimizer).__name__}, but the step has the state of {theirs}"
        raise StateError("the optimizer", fact, hint="use one of the step's kind")
    return {**slots, "step": torch.tensor(float(state["step"]))} if "exp_avg" in slots else slots


def _to_tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
