"""Compiled steps as the tests use them, beside `EagerTrainer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import torch

import dmc
from dmc.runtime import Step
from tests.models.case import Batch, Case

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def compile_case(case: Case, optimizer: Any, **options: Any) -> Step:
    """The training step of `case`; `options` are further arguments of `dmc.compile`.

    The compiler does not verify it, unless asked: the test that calls this compares.
    """
    options = {"verify": False, **options}
    return dmc.compile(case.model, loss=case.loss, optimizer=optimizer, example=case.example(0), **options)


def call(step: Step, batch: Batch, **options: Any) -> Any:
    """`step` on a batch of positional or keyword inputs."""
    if isinstance(batch, Mapping):
        return step(**batch, **options)
    return step(*batch, **options)


def train(step: Step, batches: Iterable[Batch], **options: Any) -> list[float]:
    """One step on each batch; the losses, read after all have been issued."""
    return [float(loss) for loss in [call(step, batch, **options) for batch in batches]]


def model_state(step: Step) -> dict[str, torch.Tensor]:
    """Parameters and buffers by the model's own names."""
    return {name: torch.as_tensor(value) for name, value in step.state_dict()["model"].items()}


def clone_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A copy of the model's parameters and buffers, which training does not change."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def assert_descends_as_eager(step: Step, model: torch.nn.Module, loss: Loss, batch: tuple[torch.Tensor, ...]) -> None:
    """A step of SGD at rate 1 has eager's loss, and takes eager's gradient off each parameter of `model` (f32)."""
    *inputs, target = batch
    eager = loss(model(*inputs), target)
    eager.backward()
    assert float(step(*batch)) == pytest.approx(eager.item(), rel=1e-5)
    trained = model_state(step)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            assert torch.equal(trained[name], parameter)
            continue
        assert parameter.grad is not None
        torch.testing.assert_close(trained[name], parameter.detach() - parameter.grad, rtol=1e-5, atol=1e-6)


def assert_same_bits(actual: Any, expected: Any) -> None:
    """Two state dictionaries (of steps or of models) hold the same bytes under the same names."""
    if isinstance(expected, Mapping):
        assert actual.keys() == expected.keys()
        for name in expected:
            assert_same_bits(actual[name], expected[name])
        return
    left, right = torch.as_tensor(actual), torch.as_tensor(expected)
    assert left.dtype == right.dtype and torch.equal(left, right), "not the same bits"
