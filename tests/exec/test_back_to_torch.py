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
