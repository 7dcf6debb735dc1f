"""Training that goes on in PyTorch eager, and PyTorch's schedulers."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, OneCycleLR, ReduceLROnPlateau, SequentialLR

import dmc
from dmc.errors import DmcError, InputError, StateError

STEPS = 3


def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    draw = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 6, generator=draw), torch.randn(8, 3, generator=draw)) for _ in range(2 * STEPS)]


def _optimizer(kind: str, model: Any) -> torch.optim.Optimizer:
    groups = [{"params": [model.weight], "weight_decay": 0.1}, {"params": [model.bias], "lr": 0.02}]
    if kind == "SGD":
        return torch.optim.SGD(groups, lr=0.05, momentum=0.9)
    return torch.optim.AdamW(groups, lr=0.05)


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_eager_goes_on_with_the_same_numbers(kind: str) -> None:
    """Half of the steps compiled, under a scheduler, half in eager: the losses are those of eager alone."""
    torch.manual_seed(0)
    model, batches = nn.Linear(6, 3), _batches()
    own = copy.deepcopy(model)
    options: dict[str, Any] = {"T_max": 10}
    step = dmc.compile(
        model, loss=functional.mse_loss, optimizer=_optimizer(kind, model), example=batches[0], verify=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler = step.scheduler(CosineAnnealingLR, **options)
        losses: list[float] = []
        for batch in batches[:STEPS]:
            losses.append(float(step(*batch, lr=scheduler)))
            scheduler.step()
    optimizer = _optimizer(kind, model)
    assert step.torch_optimizer_state(optimizer, model)["state"]
    model.load_state_dict(step.state_dict()["model"])
    optimizer.load_state_dict(step.torch_optimizer_state(optimizer, model))
    for group, rate in zip(optimizer.param_groups, scheduler.get_last_lr(), strict=True):
        group["lr"] = rate
    losses += _eager(model, optimizer, batches[STEPS:])

    own_optimizer = _optimizer(kind, own)
    own_scheduler = CosineAnnealingLR(own_optimizer, **options)
    expected = _eager(own, own_optimizer, batches[:STEPS], own_scheduler)
    expected += _eager(own, own_optimizer, batches[STEPS:])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(model.weight.detach().numpy(), own.weight.detach().numpy(), rtol=1e-4, atol=1e-6)
    _refused(step, model, optimizer, _optimizer(kind, own))
    plateau = step.scheduler(ReduceLROnPlateau, patience=0)
    for _ in range(3):
        plateau.step(step(*batches[0], lr=plateau))


class Partly(nn.Module):
    """One layer is frozen, one is trained, and nothing reads the third."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.head, self.unused = nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(2, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 6] → f32[batch, 3]."""
        return self.head(self.frozen(x))


def _of_all(kind: str, model: Any, rates: tuple[float, ...]) -> torch.optim.Optimizer:
    """Groups of all parameters; those of the first are frozen."""
    members = [model.frozen.parameters(), [model.head.weight, *model.unused.parameters()], [model.head.bias]]
    groups = [{"params": list(each), "lr": rate} for each, rate in zip(members, rates, strict=True)]
    return torch.optim.SGD(groups, momentum=0.9) if kind == "SGD" else getattr(torch.optim, kind)(groups)


@pytest.mark.parametrize(("kind", "was_trained"), [("SGD", False), ("AdamW", True), ("Adagrad", False)])
def test_what_is_frozen_or_unused_is_skipped_as_in_eager(kind: str, was_trained: bool) -> None:
    """Under an optimizer of all parameters, with a rate for each of its groups; one was trained before it was frozen,
    so that the optimizer has a state of it."""
    torch.manual_seed(0)
    model, batches, rates = Partly(), _batches(), (0.3, 0.05, 0.02)
    own = copy.deepcopy(model)
    optimizer, own_optimizer = (_of_all(kind, each, rates) for each in (model, own))
    for each, of_it in ((model, optimizer), (own, own_optimizer)) if was_trained else ():
        each.frozen.requires_grad_(True)
        _eager(each, of_it, batches[:1])
        each.frozen.requires_grad_(False)
    step = dmc.compile(model, loss=functional.mse_loss, optimizer=optimizer, example=batches[0], verify=True)
    assert step.signature.learning_rates == rates
    rates = (1.0, 0.04, 0.03)
    losses = [float(step(*batch, lr=rates)) for batch in batches[:STEPS]]
    model.load_state_dict(step.state_dict()["model"])
    optimizer.load_state_dict(step.torch_optimizer_state(optimizer, model))
    for each in (optimizer, own_optimizer):
        for group, rate in zip(each.param_groups, rates, strict=True):
            group["lr"] = rate
    losses += _eager(model, optimizer, batches[STEPS:])
    np.testing.assert_allclose(losses, _eager(own, own_optimizer, batches), rtol=1e-5)
    torch.testing.assert_close(model.state_dict(), own.state_dict(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(optimizer.state_dict(), own_optimizer.state_dict(), rtol=1e-4, atol=1e-6)


def test_what_stays_outside_the_step_changes_nothing_in_it() -> None:
    """A gradient that no optimizer holds does not count in clipping; the optimizer's own scheduler does."""
    torch.manual_seed(0)
    model, batches = Partly(), _batches()
    model.frozen.requires_grad_(True)
    own = copy.deepcopy(model)
    optimizer, own_optimizer = (torch.optim.SGD(each.head.parameters(), lr=0.1) for each in (model, own))
    schedulers = [LinearLR(each, start_factor=0.1) for each in (optimizer, own_optimizer)]
    given = dmc.optim.FromTorch(optimizer, clip_grad_norm=0.01)
    step = dmc.compile(model, loss=functional.mse_loss, optimizer=given, example=batches[0], verify=False)
    start = step.signature.learning_rates[0]
    for inputs, targets in batches:
        step(inputs, targets)
        functional.mse_loss(own(inputs), targets).backward()
        nn.utils.clip_grad_norm_(own.head.parameters(), 0.01)
        own_optimizer.step()
        own_optimizer.zero_grad()
        for scheduler in schedulers:
            scheduler.step()
    assert optimizer.param_groups[0]["lr"] > start
    torch.testing.assert_close(step.state_dict()["model"], own.state_dict(), rtol=1e-5, atol=1e-7)


def test_an_optimizer_of_parameters_that_the_step_does_not_have_is_refused() -> None:
    step = dmc.compile(
        nn.Linear(6, 3), loss=functional.mse_loss, optimizer=dmc.optim.SGD(lr=0.1), example=_batches()[0], verify=False
    )
    wrapped = nn.Sequential(nn.Linear(6, 3))
    with pytest.raises(
        StateError, match=r"has the parameter '0\.weight', which the step does not have\n  hint: create"
    ):
        step.torch_optimizer_state(torch.optim.SGD(wrapped.parameters()), wrapped)


def _refused(step: Any, model: nn.Module, optimizer: torch.optim.Optimizer, foreign: torch.optim.Optimizer) -> None:
    """Other optimizers, schedules of what a step does not change, and a step that has done nothing yet."""
    with pytest.raises(StateError, match=r"is Adagrad, which keeps sum of 'weight', but the step keeps"):
        step.torch_optimizer_state(torch.optim.Adagrad(model.parameters()), model)
    with pytest.raises(StateError, match="has a parameter that does not belong to the model"):
        step.torch_optimizer_state(foreign, model)
    with pytest.raises(DmcError, match="scheduler OneCycleLR: also cycles momentum"):
        step.scheduler(OneCycleLR, max_lr=0.1, total_steps=10)
    scheduler = step.scheduler(OneCycleLR, max_lr=0.1, total_steps=10, cycle_momentum=False)
    before = step.state_dict()
    assert step(*_batches()[0], lr=scheduler) >= 0
    own = OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
    with pytest.raises(InputError, match="OneCycleLR also cycles momentum"):
        step(*_batches()[0], lr=SequentialLR(optimizer, [own, LinearLR(optimizer)], [2]))
    step.load_state_dict(before)
    state = step.state_dict()
    step.load_state_dict({**state, "step": 0})
    assert not step.torch_optimizer_state(optimizer, model)["state"]
    step.load_state_dict(state)


def _eager(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Any, scheduler: Any = None) -> list[float]:
    losses: list[float] = []
    for inputs, targets in batches:
        loss = functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses
