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
    "large-rate": (lambda: optim.SGD(lr=1e40), r"lr is 1e\+40: not finite in float32"),
    "eps": (lambda: optim.Adam(eps=-1e-8), "eps is -1e-08"),
    "momentum": (lambda: optim.SGD(lr=0.1, momentum=-0.9), "momentum is -0.9"),
    "nesterov": (lambda: optim.SGD(lr=0.1, nesterov=True), "Nesterov"),
    "rho": (lambda: optim.Adadelta(rho=1.5), r"rho is 1.5: not finite, or not in \[0, 1\]"),
    "decay-of-beta": (lambda: optim.Adafactor(beta2_decay=0.5), "beta2_decay is 0.5"),
    "threshold": (lambda: optim.Adafactor(d=0.5), "d is 0.5: not finite, or not at least 1"),
    "adjustment": (lambda: optim.Muon(adjust_lr_fn="none"), "adjust_lr_fn is 'none'"),
    "iterations": (lambda: optim.Muon(ns_steps=100), "ns_steps is 100"),
    "ascent": (lambda: optim.Muon(maximize=True), "maximize is no option of torch.optim.Muon"),
    "vector": (optim.Muon, r"'bias': has shape \[2\], but Muon updates matrices only"),
    "inner": (
        lambda: optim.SGD(lr=0.1, groups=[optim.Group("bias", optimizer=optim.Adam(clip_grad_norm=1.0))]),
        "group 'bias': its optimizer has groups or clip_grad_norm",
    ),
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
    ("make", "counts"),
    [
        (torch.optim.Adam, True),
        (lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5), True),
        # Momentum from nothing is the gradient, and a mean of squares has no correction.
        (lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), False),
        (torch.optim.RMSprop, False),
    ],
    ids=["adam", "dampening", "momentum", "rmsprop"],
)
def test_parameters_that_joined_later_count_their_own_steps(make: Callable[[Any], Any], counts: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    optimizer = make(model.parameters())
    model[1].requires_grad_(False)
    _trained(optimizer, model)
    model[1].requires_grad_(True)
    plan = optim.plan(optimizer, dict(model.named_parameters()))
    done = plan.steps_done(plan.group_of)
    assert done == 1
    own = {name: [slot.name for slot in plan.slots(name, (3,), done)] for name in plan.group_of}
    assert "step" not in own["0.weight"]
    assert ("step" in own["1.weight"]) == counts


def test_groups_with_other_optimizers() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    muon = optim.Muon(lr=0.3, groups=[optim.Group("*.bias", lr=0.1, optimizer=optim.Lion(weight_decay=1))])
    plan = optim.plan(muon, dict(model.named_parameters()))
    assert plan.groups == (optim.Muon(lr=0.3), optim.Lion(lr=0.1, weight_decay=1.0))
    assert [plan.group_of[f"{i}.{name}"] for i in range(2) for name in ("weight", "bias")] == [0, 1, 0, 1]


def test_several_optimizers_of_torch() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    weights, biases = [[getattr(layer, name) for layer in model] for name in ("weight", "bias")]
    rate: Any = torch.tensor(0.3)
    both = [torch.optim.Muon(weights, lr=rate), torch.optim.Adam(biases, lr=rate, amsgrad=True, maximize=True)]
    parameters = dict(model.named_parameters())
    plan = optim.plan(optim.FromTorch(both, clip_grad_norm=1.0), parameters)
    rate = float(rate)
    assert plan.groups == (optim.Muon(lr=rate), optim.Adam(lr=rate, amsgrad=True, maximize=True))
    assert plan.clip_grad_norm == 1.0
    with pytest.raises(DmcError, match=r"contains '0\.weight', which another group also contains"):
        optim.plan([both[0], torch.optim.SGD(model.parameters())], parameters)
    with pytest.raises(DmcError, match=r"(?s)Rprop: is not supported.*Adagrad.*RMSprop"):
        optim.plan(torch.optim.Rprop(model.parameters()), parameters)
    with pytest.raises(DmcError, match="differentiable=True is not supported"):
        optim.plan(torch.optim.NAdam(model.parameters(), differentiable=True), parameters)


def test_frozen_parameters_of_an_optimizer_of_torch_are_skipped() -> None:
    """Groups keep their numbers; what is not of the model is refused as ever."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    rates: list[Any] = [
        {"params": list(layer.parameters()), "lr": rate} for layer, rate in zip(model, (0.1, 0.2), strict=True)
    ]
    optimizer = _trained(torch.optim.Adam(rates), model)
    model[0].requires_grad_(False)
    model[1].bias.requires_grad_(False)
    plan = optim.plan_for(model, optimizer)
    assert [group.lr for group in plan.groups] == [0.1, 0.2]
    assert (plan.group_of, plan.counts) == ({"1.weight": 1}, {"1.weight": 1})
    assert plan.state.keys() == {"1.weight.exp_avg", "1.weight.exp_avg_sq"}
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3), requires_grad=False)]})
    with pytest.raises(DmcError, match=r"has a parameter that is not of this model\n.*model\.parameters"):
        optim.plan_for(model, optimizer)


def _trained(optimizer: Any, model: nn.Module) -> Any:
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    return optimizer
