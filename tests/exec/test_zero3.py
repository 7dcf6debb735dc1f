"""ZeRO of stage 3 frees gathered weights: the numbers of one rank, in less memory than stage 2."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dmc
from tests.tolerance import TOLERANCE

LAYERS, WIDTH, ROWS = 10, 512, 8
BYTES = LAYERS * WIDTH * WIDTH * 4


def _model() -> nn.Module:
    torch.manual_seed(0)
    layers = (each for _ in range(LAYERS) for each in (nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(ROWS, WIDTH, generator=generator)
    return inputs, torch.randint(10, (ROWS,), generator=generator)


def _step(zero: int, ranks: int = 2, **options: Any) -> dmc.Step:
    plan = dmc.plan(dmc.Mesh(dp=ranks)).data_parallel("dp", zero=zero) if zero else None
    optimizer = dmc.optim.SGD(lr=0.05, momentum=0.9)
    loss = nn.functional.cross_entropy
    return dmc.compile(_model(), loss=loss, optimizer=optimizer, example=_batch(), plan=plan, **options)


def _losses(step: dmc.Step) -> list[float]:
    return [float(step(*_batch())) for _ in range(5)]


def assert_losses(step: dmc.Step, wanted: list[float]) -> None:
    """Five losses are those of one rank."""
    for loss, expected in zip(_losses(step), wanted, strict=True):
        assert abs(loss - expected) <= TOLERANCE["mesh"].loss * expected


def test_stage_3_frees_what_it_gathers() -> None:
    """Weights but the first and those near the loss are gathered twice; the arena has room for few of them at once."""
    one, second, third = (_step(zero) for zero in (0, 2, 3))
    wanted = _losses(one)
    assert_losses(second, wanted)
    assert_losses(third, wanted)
    gathered = [step.ledger().by_kind()["all_gather"] for step in (second, third)]
    assert gathered[1] > 1.5 * gathered[0]
    memory = [step.memory().ranks[0] for step in (second, third)]
    assert memory[1].arena < memory[0].arena
    # Half of a stage-2 step's gathered weights are its own pieces.
    assert memory[1].most["communication"] < memory[0].most["communication"] // 2


@pytest.mark.parametrize("accumulate", [1, 2])
def test_under_a_cap_below_the_gathered_weights(accumulate: int) -> None:
    """State of a rank, momentum and gradients take half of the weights each; all gathered at once would not fit."""
    cap = 2 * BYTES
    step = _step(3, accumulate=accumulate, memory_cap=cap)
    assert step.memory().ranks[0].arena <= cap
    assert_losses(step, _losses(_step(0, accumulate=accumulate)))


class _Tied(nn.Module):
    """A table that is also the head, read in both passes, and a weight that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2 * WIDTH, WIDTH)
        self.first, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.down.weight.requires_grad_(False)
        self.head = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """i64[rows, tokens] → f32[rows * tokens, classes]."""
        x = self.table(tokens) / WIDTH**0.5
        x = x + self.down(torch.tanh(self.up(self.first(x))))
        return self.head(self.last(x)).flatten(0, 1)


def test_tied_and_frozen_weights_beside_tensor_and_sequence_parallelism() -> None:
    plan = dmc.plan(dmc.Mesh(dp=2, tp=2)).use(dmc.plans.zero3("dp")).sequence_parallel("tp", between=["first", "last"])
    plan = plan.shard("up.*", dim=0, axis="tp").shard("down.weight", dim=1, axis="tp")
    plan = plan.shard("table.weight", dim=0, axis="tp")
    generator = torch.Generator().manual_seed(1)
    tokens, classes = (torch.randint(2 * WIDTH, (ROWS, 4), generator=generator) for _ in range(2))
    batch, losses = (tokens, classes.flatten()), list[list[float]]()
    for each in (None, plan):
        torch.manual_seed(0)
        optimizer = dmc.optim.SGD(lr=0.05, momentum=0.9, clip_grad_norm=1.0)
        given: dict[str, Any] = {"loss": nn.functional.cross_entropy, "optimizer": optimizer, "verify": False}
        step = dmc.compile(_Tied(), example=batch, plan=each, accumulate=2, **given)
        losses.append([float(step(*batch)) for _ in range(3)])
    for loss, expected in zip(*reversed(losses), strict=True):
        assert abs(loss - expected) <= TOLERANCE["mesh"].loss * expected
