"""What stays inside a step: frozen, tied and unused parameters, buffers, and saving and resuming bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import dmc
from tests.compiled import assert_same_bits, clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer
from tests.large import large_unless
from tests.models import build, demo_gpt
from tests.models.case import Case
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS = 4


class Network(nn.Module):
    """One of each: trained, frozen, tied, unused, a buffer that training changes and one that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("scale", torch.tensor(2.0))
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """i64[batch] → f32[batch, 20]."""
        return self.head(self.norm(self.frozen(self.embedding(tokens)) * self.scale))


def _case() -> Case:
    torch.manual_seed(0)
    return Case("network", Network(), nn.functional.cross_entropy, _example)


def _example(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(20, (32,), generator=generator), torch.randint(20, (32,), generator=generator)


def test_every_kind_of_tensor_agrees_with_eager() -> None:
    case, eager = _case(), _case()
    start = clone_state(case.model)
    batches = [case.example(seed) for seed in range(STEPS)]
    step = compile_case(case, dmc.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.1))
    losses = train(step, batches)
    optimizer = torch.optim.SGD(eager.model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    trainer = EagerTrainer(eager.model, eager.loss, optimizer)
    expected = [trainer.step(batch) for batch in batches]
    after = model_state(step)
    assert_losses_close(losses, expected, TOLERANCE["fp32"])
    assert_states_close(start, after, eager.model.state_dict(), TOLERANCE["fp32"])
    assert after.keys() == start.keys()
    for name in ("frozen.weight", "frozen.bias", "unused.weight", "unused.bias", "scale"):
        assert torch.equal(after[name], start[name]), f"{name} changed"
    assert torch.equal(after["head.weight"], after["embedding.weight"])
    assert after["norm.num_batches_tracked"].item() == STEPS
    assert not torch.equal(after["norm.running_mean"], start["norm.running_mean"])


def test_only_trained_parameters_have_optimizer_state() -> None:
    step = compile_case(_case(), dmc.optim.AdamW(lr=1e-3))
    trained = {name.rpartition(".")[0] for name in step.state_dict()["optimizer"]}
    assert trained == {"embedding.weight", "norm.weight", "norm.bias"}


def test_training_leaves_the_model_alone_and_trained_weights_load_into_it() -> None:
    case = _case()
    start = clone_state(case.model)
    step = compile_case(case, dmc.optim.SGD(lr=0.1))
    train(step, [case.example(0)])
    assert_same_bits(case.model.state_dict(), start)
    assert all(parameter.grad is None for parameter in case.model.parameters())
    assert case.model.training
    case.model.load_state_dict(step.state_dict()["model"])
    assert_same_bits(case.model.state_dict(), model_state(step))


@pytest.mark.parametrize("name", large_unless(("demo_gpt",), ["demo_gpt", "resnet"]))
def test_save_load_and_resume_bit_for_bit(name: str, tmp_path: Path) -> None:
    case = demo_gpt.build(0.1, layers=1) if name == "demo_gpt" else build(name, dropout=0.1)
    batches = [case.example(seed) for seed in range(6)]
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    step = compile_case(case, optimizer, seed=3)
    train(step, batches[:3])
    step.save(tmp_path / "step.dmc")
    state = step.state_dict()
    assert state["step"] == 3
    straight, end = train(step, batches[3:]), step.state_dict()

    loaded = dmc.load(tmp_path / "step.dmc")
    assert_same_bits(loaded.state_dict(), state)
    assert train(loaded, batches[3:]) == straight
    assert_same_bits(loaded.state_dict(), end)

    step.load_state_dict(state)
    assert train(step, batches[3:]) == straight


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    step = compile_case(_case(), dmc.optim.SGD(lr=0.1))
    before = step.state_dict()
    missing = {**before, "model": {k: v for k, v in before["model"].items() if k != "norm.weight"}}
    shape = {**before, "model": {**before["model"], "norm.bias": np.zeros(9, np.float32)}}
    unknown = {**before, "model": {**before["model"], "no_such": np.zeros(1, np.float32)}}
    for state, name in ((missing, "norm.weight"), (shape, "norm.bias"), (unknown, "no_such")):
        with pytest.raises(dmc.errors.StateError, match=name):
            step.load_state_dict(state)
    assert_same_bits(step.state_dict(), before)
