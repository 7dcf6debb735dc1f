"""A small model of two layers, and steps of it as stages of a pipeline beside those of one rank."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.plans import Plan
from dmc.runtime import Step
from tests.compiled import model_state, train

WIDTH, ROWS, MICRO = 8, 8, 2
STEPS = 3


def layers() -> nn.Module:
    """A matrix, a function, dropout, and a matrix: `0` to `3`."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH))


def batch(seed: int, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """Inputs and targets, f32 [rows, width] from a normal distribution."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, WIDTH, generator=random), torch.randn(rows, WIDTH, generator=random)


def two_stages(cut: str = ".3", **options: Any) -> Plan:
    """A plan for two ranks; `options` are those of `Plan.pipeline`."""
    return dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=[cut], microbatches=MICRO, **options)


def compiled(model: nn.Module, **options: Any) -> Step:
    """The step of a copy of `model`, verified where it has a plan; `options` are those of `dmc.compile`."""
    given: dict[str, Any] = {
        "loss": functional.mse_loss,
        "optimizer": dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0),
        "example": batch(0),
        "verify": "plan" in options,
        **options,
    }
    return dmc.compile(copy.deepcopy(model), **given)


def assert_trains_alike(model: nn.Module, plan: Plan, rel: float = 2e-6, **options: Any) -> tuple[Step, Step]:
    """Losses and state after some steps are those of one rank with as many micro-batches. Gives both steps, of one
    rank the first."""
    batches = [batch(seed) for seed in range(STEPS)]
    one, many = compiled(model, accumulate=MICRO, **options), compiled(model, plan=plan, **options)
    assert train(many, batches) == pytest.approx(train(one, batches), rel=rel)
    assert_same_state(many, one, rel)
    return one, many


def assert_same_state(found: Step, expected: Step, rel: float = 2e-6) -> None:
    """Parameters and buffers are equal up to a few times `rel`."""
    others = model_state(found)
    for name, tensor in model_state(expected).items():
        close = torch.allclose(others[name], tensor, rtol=5 * rel, atol=rel)
        assert close, f"{name} differs by {float((others[name] - tensor).abs().max())}"
