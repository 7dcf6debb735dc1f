"""Steps whose activations wait in host memory for the backward pass: on the CPU, with the same bits as without."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dmc
from dmc.errors import MemoryCapError
from dmc.program import Launch, Move, Program
from dmc.program.labels import RECOMPUTED
from dmc.runtime import Step
from tests.compiled import assert_same_bits, train

WIDTH = 32


class _Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(dropout)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))


def _step(blocks: int, dropout: float, **options: Any) -> Step:
    torch.manual_seed(0)
    model = nn.Sequential(*(_Block(dropout) for _ in range(blocks)))
    optimizer = dmc.optim.AdamW(lr=0.01)
    return dmc.compile(
        model, loss=nn.functional.mse_loss, optimizer=optimizer, example=_batch(0), verify=False, **options
    )


def _batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(512, WIDTH, generator=generator), torch.randn(512, WIDTH, generator=generator)


def _program(step: Step) -> Program:
    return step.snapshot().job.programs[0]


def _offloaded(step: Step) -> list[Move]:
    """The moves back from host memory of what is not an input."""
    program = _program(step)
    slots = [slot.range for slot in program.slots]
    moves = [each for each in program.commands if isinstance(each, Move)]
    return [each for each in moves if each.source.space == "pinned_host" and each.source not in slots]


def _trained(step: Step) -> tuple[list[float], Any]:
    return train(step, [_batch(0), _batch(1)]), step.state_dict()


def test_by_the_users_word_beside_recomputation() -> None:
    kept = _step(3, 0.1)
    losses, state = _trained(kept)
    assert not _offloaded(kept)
    asked = _step(3, 0.1, plan=dmc.plan().offload("*").recompute("1").keep("2"))
    program = _program(asked)
    assert {each.label.partition(".")[0] for each in _offloaded(asked)} == {"0"}
    again = {each.label for each in program.commands if isinstance(each, Launch) and each.label.endswith(RECOMPUTED)}
    assert again and all(label.startswith("1") for label in again)
    lanes = {program.lanes[each.lane].queue for each in program.commands if isinstance(each, Move)}
    assert lanes == {"copy_in", "copy_out"}
    assert program.arenas["device"] < _program(kept).arenas["device"]
    found, after = _trained(asked)
    assert found == losses
    assert_same_bits(after, state)


@settings(max_examples=2, deadline=None)
@given(blocks=st.integers(2, 4), dropout=st.sampled_from((0.0, 0.2)), percent=st.integers(35, 45))
def test_under_a_cap_on_a_machine_with_its_own_memory(blocks: int, dropout: float, percent: int) -> None:
    kept = _step(blocks, dropout)
    losses, state = _trained(kept)
    cap = _program(kept).arenas["device"] * percent // 100
    try:
        capped = _step(blocks, dropout, machine="h200", memory_cap=cap)
    except MemoryCapError as error:
        cap = error.needed
        capped = _step(blocks, dropout, machine="h200", memory_cap=cap)
    assert _program(capped).arenas["device"] <= cap and _offloaded(capped)
    found, after = _trained(capped)
    assert found == losses
    assert_same_bits(after, state)


def test_beside_other_ranks_and_micro_batches() -> None:
    split = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp", zero=3)
    losses, state = _trained(_step(2, 0.1, plan=split, accumulate=2))
    asked = _step(2, 0.1, plan=split.offload("*"), accumulate=2)
    assert _offloaded(asked)
    assert len(asked.ledger().offloaded) == 2
    found, after = _trained(asked)
    assert found == losses
    assert_same_bits(after, state)
