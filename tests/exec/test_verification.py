"""Verification at compile time: what is right passes, nothing else notices, and what is not compared is said."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.errors import ArtifactError, NonFiniteLossError, VerificationError
from dmc.observer import RecordingObserver
from dmc.runtime.comparison.outcome import Expected
from dmc.runtime.sessions import open_session
from dmc.verification import verify as verification
from tests.compiled import assert_same_bits, clone_state

ROWS, LENGTH, WIDTH = 4, 3, 6


class Varied(nn.Module):
    """Several ways to draw dropout, buffers that change, a tied and a frozen weight, and a module in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(WIDTH, WIDTH, num_layers=2, dropout=0.2, batch_first=True)
        self.all, self.some = nn.Dropout(1.0), nn.Dropout(0.3)
        # What is added before it has no gradient but for rounding, of which Adam makes whole steps.
        self.shift, self.norm = nn.Parameter(torch.randn(WIDTH)), nn.BatchNorm1d(WIDTH)
        self.frozen = nn.Parameter(torch.randn(WIDTH), requires_grad=False)
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        """f32[ROWS, LENGTH, WIDTH] → f32[ROWS, LENGTH, WIDTH]"""
        x, _ = self.rnn(self.some(x))
        self.some(x)  # Draws, and has no users.
        x = self.first(x + self.all(x)) + self.shift
        x = self.some(self.norm(x.flatten(0, 1))).view(ROWS, LENGTH, WIDTH)
        return self.second(x * self.frozen)


def _loss(y: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    return nn.functional.mse_loss(y, targets), {"y": y}


class Routed(nn.Module):
    """Takes the places of the largest scores, most of which are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(3, 8))

    def forward(self, mask: Tensor) -> Tensor:
        """f32[3, 8] → f32[3, 4]"""
        values, places = (self.scores + mask).topk(4)
        return values.clamp(min=-1.0) + places * torch.arange(4.0)


def test_what_is_right_passes_and_nothing_else_notices() -> None:
    torch.manual_seed(0)
    model = Varied()
    example = (torch.randn(ROWS, LENGTH, WIDTH), torch.randn(ROWS, LENGTH, WIDTH))
    model.second.bias.grad = gradient = torch.ones(WIDTH)
    before, observer = clone_state(model), RecordingObserver()
    pointers = [p.data_ptr() for p in model.parameters()]
    bits = torch.get_rng_state()
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=0.5, groups=[dmc.optim.Group("*.bias*", lr=1e-4)])
    step = dmc.compile(model, loss=_loss, optimizer=optimizer, example=example, seed=5, verify=True, observer=observer)
    assert [stage.name for stage in observer.times][-1] == "verify" == observer.planned[-1]
    assert observer.notes == []
    assert_same_bits(model.state_dict(), before)
    assert [p.data_ptr() for p in model.parameters()] == pointers
    assert model.second.bias.grad is gradient and model.first.weight.grad is None
    assert torch.equal(torch.get_rng_state(), bits)
    assert step.steps_done == 0
    assert_same_bits(step.state_dict()["model"], before)


def test_ranks_in_bf16_and_state_that_was_taken_over() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5), nn.Linear(WIDTH, WIDTH))
    example = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    nn.functional.mse_loss(model(example[0]), example[1]).backward()
    optimizer.step()
    mesh = dmc.Mesh(dp=2)
    dmc.compile(
        model,
        loss=nn.functional.mse_loss,
        optimizer=optimizer,
        example=example,
        precision="bf16-mixed",
        mesh=mesh,
        plan=dmc.plan(mesh).data_parallel("dp", zero=2),
        verify=True,
    )


def _linear(verify: bool | None, example: tuple[Tensor, Tensor] | None = None, **options: Any) -> list[str]:
    """The notes of a compilation."""
    observer = RecordingObserver()
    example = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)) if example is None else example
    model: nn.Module = nn.Linear(WIDTH, WIDTH) if example[0].is_floating_point() else nn.Embedding(4, WIDTH)
    optimizer = dmc.optim.SGD(lr=0.1)
    dmc.compile_artifact(
        model,
        loss=nn.functional.mse_loss,
        optimizer=optimizer,
        example=example,
        verify=verify,
        observer=observer,
        **options,
    )
    return observer.notes


def test_what_takes_too_long_is_not_compared_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "SHARE", 0.0)
    (note,) = _linear(None)
    assert re.fullmatch(
        r"not verified: a step of eager takes about 0\.0 s, more than a tenth of the \d+\.\d s of compilation; "
        r"verify=True compares the step with PyTorch eager anyway, in about 0\.0 s",
        note,
    )
    assert _linear(False) == []


def test_a_step_that_cannot_run_here_is_interpreted() -> None:
    assert _linear(True, target="cuda") == []


def test_an_example_that_eager_refuses_is_said() -> None:
    example = (torch.tensor([0, 9, 1]), torch.randn(3, WIDTH))
    (note,) = _linear(None, example)
    fact = "the model or its loss: a step of PyTorch eager on the example raises IndexError: index out of range in self"
    assert note == f"not verified: {fact}"
    with pytest.raises(VerificationError, match="raises IndexError: index out of range in self\n  hint: fix the model"):
        _linear(True, example)


class _Other:
    """Another device: computes what the CPU does, of the batch times `factor`."""

    def __init__(self, session: Any) -> None:
        self.session, self.factor = session, 1.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def issue(self, controls: Any, batch: Any, program: int = 0) -> Any:
        """As that of a session."""
        return self.session.issue(controls, [np.float32(self.factor) * each for each in batch], program)


def _no_such_processor(requires: Any, what: str) -> None:
    raise ArtifactError(what, "no such processor")


def test_a_device_is_compared_with_the_plan_of_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    example = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
    optimizer = dmc.optim.AdamW(lr=0.1)
    options: dict[str, Any] = {"loss": nn.functional.mse_loss, "optimizer": optimizer, "example": example}
    dmc.compile(nn.Linear(WIDTH, WIDTH), **options, verify=False).save(tmp_path / "step.dmc")
    with pytest.raises(ArtifactError, match="already runs on the CPU"):
        dmc.runtime.load(tmp_path / "step.dmc", verify=True)
    step = dmc.runtime.load(tmp_path / "step.dmc")
    other = _Other(vars(step)["_session"])
    monkeypatch.setattr(step, "_session", other)
    for each in vars(step)["_variants"]["training"]:
        monkeypatch.setattr(each, "_session", other)
    step.verify_next()
    step(*example)
    other.factor = 2.0
    step.verify_next()
    with pytest.raises(VerificationError, match="differs from the CPU's result for the same plan\n  'loss' differs by"):
        step(*example)
    step(*example)

    # With a loss that is not finite, both leave the state unchanged.
    other.factor, (inputs, targets) = 1.0, example
    step.verify_next()
    with pytest.raises(NonFiniteLossError):
        step(float("inf") * inputs, targets, check_finite=True)
    # What was not compared yet must still be compared.
    step.verify_next()
    with monkeypatch.context() as broken:
        broken.setattr(open_session, "check_cpu", _no_such_processor)
        with pytest.raises(ArtifactError, match="no such processor"):
            step(*example)
    other.factor = 2.0
    with pytest.raises(VerificationError):
        step(*example)

    elsewhere = dataclasses.replace(step.snapshot(), target="cuda")
    monkeypatch.setattr(step, "_artifact", elsewhere)
    with pytest.raises(ArtifactError, match="contains no CPU code to compare with"):
        step.verify_next()


def test_which_of_equal_elements_comes_first_is_no_difference() -> None:
    mask = torch.full((3, 8), -torch.inf)
    mask[1:, 5:] = 0.0
    example = (mask, torch.zeros(3, 4))
    assert not torch.equal(mask.topk(4).indices, mask.sort(dim=1, descending=True, stable=True).indices[:, :4])
    dmc.compile(Routed(), loss=_loss, optimizer=dmc.optim.SGD(lr=0.1), example=example, verify=True)


class Insisting(nn.Module):
    """Takes bfloat16 alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, 1, dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        """bf16[ROWS, WIDTH] → the loss."""
        assert x.dtype == torch.bfloat16, "only bfloat16"
        return self.inner(x).sum()


def test_a_model_that_refuses_f32_is_disturbed_in_its_own_type(monkeypatch: pytest.MonkeyPatch) -> None:
    # The table does not settle it, the second step does. Those that follow are compared likewise.
    monkeypatch.setattr(verification, "STEPS", 1)
    answers = iter((["a difference"], []))
    monkeypatch.setattr(Expected, "differences", lambda *_: next(answers))
    observer = RecordingObserver()
    example = {"x": torch.ones(ROWS, WIDTH, dtype=torch.bfloat16)}
    dmc.compile(Insisting(), optimizer=dmc.optim.SGD(lr=0.1), example=example, verify=True, observer=observer)
    assert observer.notes == ["a step of PyTorch eager in f32 fails: only bfloat16"]


class Cancelled(nn.Module):
    """The bias of the convolution has no gradient but for rounding, of a sum of 2048 terms."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        """f32[n, 1, h, w] → f32[n, 4]"""
        return self.head(torch.relu(self.norm(self.convolution(x))).mean((2, 3)))


def test_a_gradient_that_is_rounding_may_be_rounded_otherwise() -> None:
    torch.manual_seed(4)
    model, loss, optimizer = Cancelled(), nn.functional.cross_entropy, dmc.optim.SGD(lr=0.1)
    example = (2 * torch.randn(8, 1, 16, 16), torch.zeros(8, dtype=torch.int64))
    dmc.compile(model, loss=loss, optimizer=optimizer, example=example, verify=True).close()


class Constant(nn.Module):
    """Normalises what is constant: what rounding leaves of it is multiplied by 1 / sqrt(eps)."""

    def __init__(self) -> None:
        super().__init__()
        self.batch, self.layer, self.group = nn.BatchNorm1d(48), nn.LayerNorm(48), nn.GroupNorm(2, 48)
        self.head = nn.Linear(48, 3)

    def forward(self, x: Tensor) -> Tensor:
        """f32[n, 48] → f32[n, 3]"""
        spelled = (x - x.mean(0)) * (x.var(0) + 1e-5).rsqrt()
        return self.head(self.batch(x) + self.layer(x) + self.group(x) + spelled)


def test_a_constant_may_be_normalised_to_what_rounding_leaves_of_it() -> None:
    torch.manual_seed(0)
    example = (torch.full((1000, 48), 1.7), torch.randn(1000, 3))
    loss, optimizer = nn.functional.mse_loss, dmc.optim.AdamW(lr=0.1)
    dmc.compile(Constant(), loss=loss, optimizer=optimizer, example=example, verify=True).close()
