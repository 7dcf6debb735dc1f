"""Pipelines train like one rank with as many micro-batches: losses, state, and with the same bits twice."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.plans import Plan

WORDS, WIDTH, BATCH = 32, 8, 8
STEPS = 4


class Block(nn.Module):
    """Two matrices between a norm and a residual, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The same shape."""
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x))))) * mask


class Tied(nn.Module):
    """An embedding, blocks that share a mask, and a head with the embedding's weight; the first block is read again by
    the last, and both ends have one factor."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embedding.weight
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, tokens: Tensor) -> Tensor:
        """f32 [batch, length, words]"""
        x, mask = self.embedding(tokens) * self.scale, (tokens > 0).float()[..., None]
        outputs = []
        for block in self.blocks:
            x = block(x, mask)
            outputs.append(x)
        return self.head(x + outputs[0]) * self.scale


def _loss(output: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.view(-1, WORDS), targets.view(-1))


def _batch(seed: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(WORDS, (2, BATCH, 5), generator=torch.Generator().manual_seed(seed))
    return tokens[0], tokens[1]


def _trained(model: nn.Module, **options: Any) -> tuple[list[float], Mapping[str, Tensor]]:
    optimizer = dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0)
    step = dmc.compile(copy.deepcopy(model), loss=_loss, optimizer=optimizer, example=_batch(0), **options)
    losses = [float(step(*_batch(number))) for number in range(STEPS)]
    return losses, step.state_dict()["model"]


def _pipelined(ranks: int, schedule: str, chunks: int = 1, **axes: int) -> Plan:
    cut = [f"blocks.{number}" for number in range(1, ranks * chunks)]
    plan = dmc.plan(dmc.Mesh(links=None, pp=ranks, **axes))
    return plan.pipeline("pp", cut=cut, microbatches=4, schedule=schedule, chunks=chunks)


CASES = {
    "1f1b": (2, _pipelined(2, "1f1b")),
    "three stages": (3, _pipelined(3, "gpipe")),
    "interleaved": (4, _pipelined(2, "interleaved", 2)),
    "zb-v": (4, _pipelined(2, "zb-v", 2)),
    "searched": (2, _pipelined(2, "searched")),
    "searched, in a V": (4, _pipelined(2, "searched", 2)),
    "zb-h1 beside dp": (2, _pipelined(2, "zb-h1", dp=2).data_parallel("dp")),
    "one rank beside dp": (2, _pipelined(1, "interleaved", 2, dp=2).data_parallel("dp")),
    "1f1b beside zero2": (2, _pipelined(2, "1f1b", dp=2).data_parallel("dp", zero=2)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pipeline_trains_like_one_rank(case: str) -> None:
    blocks, plan = CASES[case]
    torch.manual_seed(0)
    model = Tied(blocks)
    losses, state = _trained(model, accumulate=4, verify=False)
    found, others = _trained(model, plan=plan, verify=True)
    assert found == pytest.approx(losses, rel=2e-6)
    for name, tensor in state.items():
        torch.testing.assert_close(others[name], tensor, rtol=1e-5, atol=1e-6, msg=name)
    if case == "1f1b":
        again, same = _trained(model, plan=plan, verify=False)
        assert again == found
        assert all(torch.equal(same[name], others[name]) for name in same)


def test_what_is_sent_is_not_kept_until_the_end() -> None:
    model = nn.Sequential(nn.Linear(8, 512, bias=False), nn.Tanh(), nn.Linear(512, 8, bias=False))

    def used(microbatches: int) -> list[int]:
        batch = torch.zeros(64 * microbatches, 8)
        plan = dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=["2"], microbatches=microbatches)
        options: dict[str, Any] = {"optimizer": dmc.optim.SGD(lr=0.1), "example": (batch, batch), "verify": False}
        artifact = dmc.compile_artifact(model, loss=nn.functional.mse_loss, plan=plan, **options)
        return [each.program.arenas["device"] for each in artifact.job.classes]

    sent = 64 * 512 * 4
    # Of each micro-batch there remain its inputs, and gradients of weights until they are summed.
    assert all(many - few < 8 * sent / 2 for few, many in zip(used(4), used(12), strict=True))
