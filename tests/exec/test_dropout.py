"""Dropout draws from a counter: repeatable by seed and step, fresh at each step, the same in forward and backward."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.runtime import Step
from tests.compiled import assert_same_bits, call, compile_case, train
from tests.eager import objective
from tests.large import large_unless
from tests.models import NAMES, build
from tests.models.case import Case

SIZE = 20_000
SIGMAS = 5.0  # A right generator misses this once in two million draws.


# Dropout between layers alone, as in the others, is in the demo's GPT, too.
@pytest.fixture(scope="module", params=large_unless(("demo_gpt",), NAMES))
def trained(request: pytest.FixtureRequest) -> tuple[Case, Step]:
    """Each model with its dropout, compiled once for the tests below; every test sets the state itself."""
    case = build(request.param, dropout=0.1)
    return case, compile_case(case, dmc.optim.SGD(lr=0.05), seed=7)


def test_training_repeats_bit_for_bit_given_the_seed(trained: tuple[Case, Step]) -> None:
    case, step = trained
    batches = [case.example(seed) for seed in range(3)]
    start = step.state_dict()
    first, after_first = train(step, batches), step.state_dict()
    step.load_state_dict(start)
    second, after_second = train(step, batches), step.state_dict()
    assert first == second
    assert_same_bits(after_second, after_first)

    step.load_state_dict({**start, "seed": 8})
    assert train(step, batches) != first
    without = objective(build(case.name, 0.0).model, case.loss, batches[0]).item()
    assert first[0] != pytest.approx(without, rel=1e-5)
    step.load_state_dict(start)


def test_gradient_is_that_of_the_dropped_loss(trained: tuple[Case, Step]) -> None:
    # A step of rate 1 shows the gradient; along it, with seed and step held, the loss must rise by its norm. A mask
    # that backward draws anew, or scales otherwise, loses most of that.
    case, step = trained
    start, batch = step.state_dict(), case.example(0)
    loss = float(call(step, batch, lr=1.0))
    after = step.state_dict()["model"]
    names = [spec.name for spec in step.signature.state if spec.role == "parameter"]
    gradient = {name: start["model"][name] - after[name] for name in names}
    norm = math.sqrt(sum(part.double().square().sum().item() for part in gradient.values()))
    distance = 0.01 * loss / norm

    def loss_at(offset: float) -> float:
        moved = {name: start["model"][name] + offset / norm * gradient[name] for name in names}
        model = {name: moved.get(aliases.get(name, name), tensor) for name, tensor in start["model"].items()}
        step.load_state_dict({**start, "model": model})
        return float(call(step, batch, lr=0.0))

    aliases = {alias: spec.name for spec in step.signature.state for alias in spec.aliases}
    slope = (loss_at(distance) - loss_at(-distance)) / (2 * distance)
    step.load_state_dict(start)
    assert slope == pytest.approx(norm, rel=0.02)


class Probe(nn.Module):
    """Two dropouts over the same input; with weight and input one, the outputs show the masks and their scale."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(SIZE))
        self.second = nn.Parameter(torch.ones(SIZE))
        self.dropout = nn.Dropout(probability)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """f32[SIZE] → the two dropped f32[SIZE]."""
        return self.dropout(x * self.first), self.dropout(x * self.second)


def _sum_and_outputs(
    outputs: tuple[torch.Tensor, torch.Tensor], scale: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    first, second = outputs
    return scale * (first.sum() + second.sum()), {"first": first, "second": second}


def _probe(probability: float) -> Step:
    """As if newly compiled."""
    step, start = _compiled(probability)
    step.load_state_dict(start)
    return step


@cache
def _compiled(probability: float) -> tuple[Step, Any]:
    example = (torch.ones(SIZE), torch.ones(()))
    # Rate 1 and a loss that is a sum: a step subtracts exactly the gradient from the weights.
    optimizer = dmc.optim.SGD(lr=1.0)
    step = dmc.compile(Probe(probability), loss=_sum_and_outputs, optimizer=optimizer, example=example)
    return step, step.state_dict()


def _masks(step: Step) -> dict[str, torch.Tensor]:
    _, outputs = step(torch.ones(SIZE), torch.ones(()))
    return {name: torch.tensor(output.numpy()) for name, output in outputs.items()}


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.75])
def test_kept_fraction_and_scale_are_right(probability: float) -> None:
    step = _probe(probability)
    for kept in _masks(step).values():
        assert kept.unique().tolist() == [0.0, pytest.approx(1 / (1 - probability))]
        deviation = math.sqrt(SIZE * probability * (1 - probability))
        assert abs((kept != 0).sum().item() - SIZE * (1 - probability)) <= SIGMAS * deviation


def test_backward_uses_the_mask_of_forward() -> None:
    step = _probe(0.5)
    masks = _masks(step)
    weights = step.state_dict()["model"]
    for name, mask in masks.items():
        gradient = 1.0 - torch.as_tensor(weights[name])
        assert torch.equal(gradient, mask)


def test_masks_are_independent_across_uses_steps_and_seeds() -> None:
    step = _probe(0.5)
    start = step.state_dict()
    masks = _masks(step)
    drawn = [masks["first"] != 0, masks["second"] != 0]
    step.load_state_dict({**start, "step": 1})
    drawn.append(_masks(step)["first"] != 0)
    step.load_state_dict({**start, "seed": 1})
    drawn.append(_masks(step)["first"] != 0)
    # Shifted by one: neighbouring elements must not share a draw either.
    drawn.append(drawn[0].roll(1))
    for index, left in enumerate(drawn):
        for right in drawn[:index]:
            equal = (left == right).sum().item()
            assert abs(equal - SIZE / 2) <= SIGMAS * math.sqrt(SIZE / 4)


def test_without_probability_nothing_is_dropped() -> None:
    masks = _masks(_probe(0.0))
    assert all(bool((mask == 1).all()) for mask in masks.values())
