"""`step.evaluate`: a second program over the state of a step, compared with PyTorch eager in eval mode."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

import dmc
from dmc import dialect
from dmc._mlir import ir
from dmc.errors import ArtifactError, ImportFailure
from dmc.importer.evaluation import import_evaluation
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from tests.large import large

OPTIMIZER = dmc.optim.AdamW(lr=0.05, weight_decay=0.1)


class Net(nn.Module):
    """Dropout and running statistics, which training and evaluation treat differently."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and classes."""
    draw = torch.Generator().manual_seed(1)
    return [(torch.randn(8, 6, generator=draw), torch.randint(4, (8,), generator=draw)) for _ in range(count)]


def with_logits(logits: torch.Tensor, targets: torch.Tensor) -> Any:
    """The loss, the logits and how many are right."""
    return functional.cross_entropy(logits, targets), (logits, (logits.argmax(-1) == targets).sum())


def check(step: Any, model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Compares an evaluation with eager's, from the state of the step."""
    model.load_state_dict(step.state_dict()["model"])
    model.eval()
    with torch.no_grad():
        loss, (logits, right) = with_logits(model(batch[0]), batch[1])
    model.train()
    found, (found_logits, found_right) = step.evaluate(*batch)
    np.testing.assert_allclose(float(found), float(loss), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found_logits.numpy(), logits.numpy(), rtol=1e-4, atol=1e-5)
    assert int(found_right.numpy()) == int(right)


def test_it_is_eagers_between_steps_and_from_a_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, (first, *others) = Net(), batches(5)
    step = dmc.compile(
        model,
        loss=functional.cross_entropy,
        optimizer=OPTIMIZER,
        example=first,
        accumulate=2,
        evaluation=with_logits,
        verify=True,
    )
    check(step, model, first)
    for batch in others:
        step(*batch)
        check(step, model, batch)
    # Its state lies where the step's does, whatever another plan of it would be.
    assert "dm.fixed_offset" in step.snapshot().programs["evaluation"].ir["01-imported"]
    before = step.state_dict()
    step.save(tmp_path / "step.dmc")
    loaded = dmc.load(tmp_path / "step.dmc")
    check(loaded, model, first)
    for name, tensor in loaded.state_dict()["model"].items():
        assert torch.equal(tensor, before["model"][name])
    assert float(loaded(*first)) == float(step(*first))
    assert model.training


# ZeRO-3 also splits what ZeRO-2 does.
@pytest.mark.parametrize("plan", [pytest.param(dmc.plans.zero2("dp"), marks=large), dmc.plans.zero3("dp")], ids=str)
def test_it_is_one_ranks_on_a_mesh(plan: Any) -> None:
    torch.manual_seed(0)
    model, (first, second) = Net(), batches(2)
    mesh = dmc.Mesh(dp=2)
    options: dict[str, Any] = {"loss": functional.cross_entropy, "optimizer": OPTIMIZER, "example": first}
    options |= {"mesh": mesh, "plan": dmc.plan(mesh).use(plan), "evaluation": with_logits, "verify": True}
    step = dmc.compile(model, **options)
    step(*first)
    check(step, model, second)
    step(*second)
    check(step, model, first)


def test_what_is_refused() -> None:
    """Without evaluation; a large constant that training does not have; state that an evaluation would change."""

    class Counting(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.linear, self.kind = nn.Linear(6, 4), kind
            self.register_buffer("seen", torch.zeros([]))
            self.large = torch.ones(30_000, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.training and self.kind == "constant":
                x = x * self.large.sum(0)
            if not self.training and self.kind == "changed":
                self.seen += 1
            return self.linear(x)

    (batch,) = batches(1)
    options: dict[str, Any] = {"loss": functional.cross_entropy, "optimizer": OPTIMIZER, "example": batch}
    with pytest.raises(ArtifactError, match="was compiled without evaluation\n  hint: compile it with evaluation=True"):
        dmc.compile(Counting(""), **options, verify=False).evaluate(*batch)
    with pytest.raises(ImportFailure, match=r"\[30000, 6\] that the model reads in eval mode, but not in training"):
        dmc.compile_artifact(Counting("constant"), **options, evaluation=True)
    with pytest.raises(ImportFailure, match="changes seen in eval mode"):
        dmc.compile_artifact(Counting("changed"), **options, evaluation=True)


class OwnConstants(nn.Module):
    """Reads constants in eval mode alone: factors, and what has no elements, with which caches begin."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            return self.linear(x)
        cached = torch.cat([torch.tensor([]), x[:, 0]])
        return self.linear(x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])) + cached.unsqueeze(1)


def test_constants_of_eval_mode_alone() -> None:
    model, (batch,) = OwnConstants(), batches(1)
    options: dict[str, Any] = {"loss": functional.cross_entropy, "optimizer": OPTIMIZER, "example": batch}
    step = dmc.compile(model, **options, evaluation=True, verify=False)
    inputs, targets = batch
    expected = functional.cross_entropy(copy.deepcopy(model).eval()(inputs), targets)
    assert float(step.evaluate(*batch)) == pytest.approx(expected.item(), rel=1e-5)


def test_the_cache_of_a_language_model_is_dead_in_an_evaluation() -> None:
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    config = LlamaConfig(vocab_size=64, num_hidden_layers=1, max_position_embeddings=64, **sizes)
    ids = torch.randint(1, 64, (2, 8))
    batch = {"input_ids": ids, "labels": ids}
    model = LlamaForCausalLM(config).train()
    assert model.config.use_cache
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        step = import_step(model, None, OPTIMIZER, batch, Precision.FP32, 1, 0, context)
        evaluation = import_evaluation(model, None, batch, Precision.FP32, step, context)
    assert [spec.shape for spec in evaluation.signature.outputs] == [()]


class Pair(nn.Module):
    """Returns (logits, loss), as nanoGPT's model does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> Any:
        logits = self.linear(x)
        return logits, functional.cross_entropy(logits, targets)


def test_a_model_with_its_own_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Which of its outputs is the loss is said by place; an evaluation may take all; eval mode is noted."""
    model, (batch,) = Pair().eval(), batches(1)
    step = dmc.compile(
        model,
        loss=1,
        optimizer=OPTIMIZER,
        example=batch,
        evaluation=lambda output: (output[1], output[0]),
        verify=True,
    )
    assert "the model is in eval mode" in caplog.text
    with torch.no_grad():
        logits, expected = model(*batch)
    loss, found = step.evaluate(*batch)
    np.testing.assert_allclose(found.numpy(), logits.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose([float(loss), float(step(*batch))], [float(expected)] * 2, rtol=1e-5)
    with pytest.raises(ImportFailure, match="loss=2 names no element of the model's output, a tuple of length 2"):
        dmc.compile_artifact(model, loss=2, optimizer=OPTIMIZER, example=batch)
