"""The state of a pipeline's ranks, each of which has only its stages': shared by programs, moved between meshes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.compiled_step import CompiledStep
from tests.compiled import assert_same_bits

LONG = torch.linspace(-1, 1, 128).reshape(16, 8), torch.linspace(0, 1, 64).reshape(16, 4)
SHORT = LONG[0][:8], LONG[1][:8]
PIPELINE = dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=["3"], microbatches=4)


def _model() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(8, 16), nn.Tanh(), nn.BatchNorm1d(16), nn.Linear(16, 16), nn.Dropout(0.1), nn.Linear(16, 4)
    model = nn.Sequential(*layers)
    model[0].bias.requires_grad_(False)
    return model


@functools.cache
def _artifact(plan: dmc.plans.Plan | None) -> Any:
    return dmc.compile_artifact(
        _model(),
        loss=nn.functional.mse_loss,
        optimizer=dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0),
        example=[LONG, SHORT],
        accumulate=4,
        plan=plan,
        evaluation=True,
        verify=False,
        progress=False,
    )


def _step(plan: dmc.plans.Plan | None) -> CompiledStep:
    return CompiledStep(_artifact(plan))


def _trained(step: CompiledStep) -> list[float]:
    """Losses of training and evaluation, of both shapes in turn."""
    return [float(call(*batch)) for batch in (LONG, SHORT) for call in (step, step.evaluate)]


def _assert_close(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> None:
    """A stage's kernels stay within an action, so that they round elsewhere than those of one rank."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=2e-5, msg=name)


def test_programs_of_stages_share_their_state() -> None:
    """Two shapes, and their evaluations, which read no optimizer's state, but leave it where it is."""
    one, step = _step(None), _step(PIPELINE)
    assert len({str(each.signature.holders.get("3.weight.exp_avg")) for each in step.snapshot().programs.values()}) == 1
    assert step.signature.holders["0.weight.exp_avg"] == (0,)
    assert step.signature.holders["3.weight.exp_avg"] == (1,)
    for _ in range(2):
        assert _trained(step) == pytest.approx(_trained(one), rel=5e-6)
    _assert_close(step.state_dict()["model"], one.state_dict()["model"])
    assert step.differing_replicas() == ()


@pytest.mark.parametrize("plans", [(None, PIPELINE), (PIPELINE, None)])
def test_a_checkpoint_fits_with_and_without_a_pipeline(plans: tuple[Any, Any], tmp_path: Path) -> None:
    first, second = map(_step, plans)
    _trained(first)
    kept = dmc.Checkpoints(first, tmp_path)
    kept.save()
    kept.wait()
    assert dmc.Checkpoints(second, tmp_path).resume() == 2
    assert_same_bits(second.state_dict(), first.state_dict())
    assert _trained(second) == pytest.approx(_trained(first), rel=5e-6)


def test_a_model_is_updated_from_all_stages() -> None:
    one, step = _step(None), _step(PIPELINE)
    for each in (one, step):
        _trained(each)
    models = _model(), _model()
    one.update(models[0])
    step.update(models[1])
    _assert_close(models[1].state_dict(), models[0].state_dict())


class _Tied(nn.Module):
    """Two stages that share a weight, of which an evaluation changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32 [rows, 4]"""
        return self.last(self.middle(self.first(x).tanh()).tanh())[:, :4]


@pytest.mark.parametrize(("schedule", "cut"), [("searched", ["0.middle"]), ("zb-v", ["0.middle", "0.last", "1"])])
def test_an_evaluation_reads_a_shared_weight_where_the_step_has_it(schedule: str, cut: list[str]) -> None:
    """Also under a schedule that wants more micro-batches than an evaluation has."""
    torch.manual_seed(0)
    model, chunks = nn.Sequential(_Tied(), nn.Linear(4, 4)), (len(cut) + 1) // 2
    plan = dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=cut, microbatches=4, schedule=schedule, chunks=chunks)
    losses = []
    for own in (None, plan):
        step = dmc.compile(
            model,
            loss=nn.functional.mse_loss,
            optimizer=dmc.optim.SGD(lr=0.1),
            example=LONG,
            accumulate=4,
            plan=own,
            evaluation=True,
            verify=False,
            progress=False,
        )
        losses.append([float(call(*LONG)) for _ in range(2) for call in (step, step.evaluate)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
