"""The optimizer updates mean what `torch.optim` means by them, step by step, in PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dmc.importer import composites

assert composites.optimizer_update  # Importing the package has registered them all.
dmc = torch.ops.dmc
RATE, STEPS = 0.05, 4
ON, OFF = torch.tensor(True), torch.tensor(False)
CLIP = torch.tensor(0.75)


def _gradient(step: int) -> Tensor:
    return torch.randn(3, 5, generator=torch.Generator().manual_seed(step))


def _reference(kind: Callable[..., torch.optim.Optimizer], options: dict[str, Any]) -> Tensor:
    parameter = _gradient(99).requires_grad_()
    optimizer = kind([parameter], **{"lr": RATE, **options})
    for step in range(STEPS):
        parameter.grad = _gradient(step) * CLIP
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_sgd(weight_decay: float) -> None:
    parameter = _gradient(99)
    for step in range(STEPS):
        rate = torch.tensor(RATE)
        parameter = dmc.optimizer_update_sgd(parameter, _gradient(step), CLIP, rate, ON, weight_decay)
    torch.testing.assert_close(parameter, _reference(torch.optim.SGD, {"weight_decay": weight_decay}))


@pytest.mark.parametrize(("dampening", "nesterov"), [(0.0, False), (0.3, False), (0.0, True)])
def test_momentum(dampening: float, nesterov: bool) -> None:
    parameter, buffer = _gradient(99), torch.full((3, 5), torch.nan)  # The first step must not read it.
    for step in range(STEPS):
        scalars = (CLIP, torch.tensor(RATE), ON, torch.tensor(step == 0))
        parameter, buffer = dmc.optimizer_update_momentum(
            parameter, _gradient(step), buffer, *scalars, 0.1, 0.9, dampening, nesterov
        )
    options = {"weight_decay": 0.1, "momentum": 0.9, "dampening": dampening, "nesterov": nesterov}
    torch.testing.assert_close(parameter, _reference(torch.optim.SGD, options))


@pytest.mark.parametrize(
    ("update", "kind"),
    [(dmc.optimizer_update_adam, torch.optim.Adam), (dmc.optimizer_update_adamw, torch.optim.AdamW)],
    ids=["adam", "adamw"],
)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam(update: Any, kind: Callable[..., torch.optim.Optimizer], weight_decay: float) -> None:
    betas, eps = (0.8, 0.95), 0.01  # Large enough to count.
    parameter, slots = _gradient(99), [torch.zeros(3, 5), torch.zeros(3, 5)]
    for step in range(STEPS):
        corrections = (torch.tensor(1 - betas[0] ** (step + 1)), torch.tensor(1 - betas[1] ** (step + 1)).sqrt())
        scalars = (CLIP, torch.tensor(RATE), ON, *corrections)
        parameter, *slots = update(parameter, _gradient(step), *slots, *scalars, *betas, eps, weight_decay)
    torch.testing.assert_close(parameter, _reference(kind, {"betas": betas, "eps": eps, "weight_decay": weight_decay}))


def test_where_it_does_not_apply_everything_stays() -> None:
    old, gradient, slots = _gradient(99), _gradient(0), [_gradient(1), _gradient(2)]
    rate, one = torch.tensor(RATE), torch.tensor(0.5)
    assert torch.equal(dmc.optimizer_update_sgd(old, gradient, CLIP, rate, OFF, 0.1), old)
    momentum = dmc.optimizer_update_momentum(old, gradient, slots[0], CLIP, rate, OFF, ON, 0.1, 0.9, 0.0, True)
    adam = dmc.optimizer_update_adam(old, gradient, *slots, CLIP, rate, OFF, one, one, 0.9, 0.99, 1e-8, 0.1)
    adamw = dmc.optimizer_update_adamw(old, gradient, *slots, CLIP, rate, OFF, one, one, 0.9, 0.99, 1e-8, 0.1)
    for result, expected in ((momentum, [old, slots[0]]), (adam, [old, *slots]), (adamw, [old, *slots])):
        assert all(torch.equal(a, b) for a, b in zip(result, expected, strict=True))
    assert torch.equal(dmc.optimizer_update_keep(old, gradient, OFF), old)
    assert torch.equal(dmc.optimizer_update_keep(old, gradient, ON), gradient)


def test_bf16_is_updated_in_f32() -> None:
    old, gradient = _gradient(99).bfloat16(), _gradient(0).bfloat16()
    rate = torch.tensor(RATE)
    wide = dmc.optimizer_update_sgd(old.float(), gradient.float(), CLIP, rate, ON, 0.1)
    assert torch.equal(dmc.optimizer_update_sgd(old, gradient, CLIP, rate, ON, 0.1), wide.bfloat16())
