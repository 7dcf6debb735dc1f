"""Optimizers that would train nonsense are refused before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dmc import optim
from dmc.errors import DmcError

SENSELESS: dict[str, tuple[Callable[[], Any], str]] = {
    "clip": (lambda: optim.SGD(lr=0.1, clip_grad_norm=-1.0), "clip_grad_norm: is -1.0"),
    "clip-nan": (lambda: optim.SGD(lr=0.1, clip_grad_norm=math.nan), "clip_grad_norm"),
    "decay": (lambda: optim.AdamW(weight_decay=math.nan), "weight_decay is nan"),
    "betas": (lambda: optim.Adam(betas=(0.9, 1.0)), r"betas are \(0.9, 1.0\)"),
    "negative-rate": (lambda: optim.SGD(lr=-0.1), "lr is -0.1"),
    "rate": (lambda: optim.SGD(lr=math.nan), "lr is nan"),
    "eps": (lambda: optim.Adam(eps=-1e-8), "eps is -1e-08"),
    "momentum": (lambda: optim.SGD(lr=0.1, momentum=-0.9), "momentum is -0.9"),
    "nesterov": (lambda: optim.SGD(lr=0.1, nesterov=True), "Nesterov"),
    "group": (lambda: optim.SGD(lr=0.1, groups=[optim.Group("bias", lr=-1.0)]), "group 1: lr is -1.0"),
}


@pytest.mark.parametrize("name", SENSELESS)
def test_senseless_settings_are_refused(name: str) -> None:
    optimizer, fact = SENSELESS[name]
    with pytest.raises(DmcError, match=fact):
        optim.plan(optimizer(), dict(nn.Linear(3, 2).named_parameters()))


def test_another_class_of_the_same_name_is_refused() -> None:
    class AdamW(torch.optim.AdamW):
        pass

    model = nn.Linear(3, 2)
    with pytest.raises(DmcError, match=r"AdamW: is not supported"):
        optim.plan(AdamW(model.parameters()), dict(model.named_parameters()))


def test_a_loaded_negative_count_is_refused() -> None:
    model = nn.Linear(3, 2)
    optimizer = _trained(torch.optim.Adam(model.parameters()), model)
    for slots in optimizer.state.values():
        slots["step"] = torch.tensor(-5.0)
    with pytest.raises(DmcError, match="has done -5 steps"):
        optim.plan(optimizer, dict(model.named_parameters()))


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (torch.optim.Adam, True),
        (lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5), True),
        (lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), False),
    ],
    ids=["adam", "dampening", "momentum"],
)
def test_parameters_that_joined_later(make: Callable[[Any], Any], refused: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    optimizer = make(model.parameters())
    model[1].requires_grad_(False)
    _trained(optimizer, model)
    model[1].requires_grad_(True)
    plan = optim.plan(optimizer, dict(model.named_parameters()))
    assert plan.steps_done(["0.weight", "0.bias"]) == 1
    if not refused:
        # Without dampening, momentum from nothing is the gradient.
        assert plan.steps_done(plan.group_of) == 1
        return
    with pytest.raises(DmcError, match=r"'1\.weight' has done 0 steps, but '0\.weight' 1"):
        plan.steps_done(plan.group_of)


def _trained(optimizer: Any, model: nn.Module) -> Any:
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    return optimizer
