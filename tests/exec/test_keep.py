"""Steps that compute activations again in the backward pass: by the user's word and under caps, the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dmc
from dmc.errors import MemoryCapError
from dmc.program import Launch
from dmc.program.labels import RECOMPUTED
from dmc.runtime import Step
from tests.compiled import assert_same_bits, compile_case, train
from tests.models import build


def _compiled(name: str, **options: Any) -> Step:
    return compile_case(build(name, dropout=0.1), dmc.optim.AdamW(lr=1e-3), verify=False, **options)


def _recomputed(step: Step) -> set[str]:
    labels = (each.label for each in step.snapshot().job.programs[0].commands if isinstance(each, Launch))
    return {label.removesuffix(RECOMPUTED) for label in labels if label.endswith(RECOMPUTED)}


def _arena(step: Step) -> int:
    return step.snapshot().job.programs[0].arenas["device"]


def _train(step: Step, name: str) -> tuple[list[float], Any]:
    example = build(name, dropout=0.1).example
    return train(step, [example(0), example(1)]), step.state_dict()


def test_a_gpt2_by_the_users_word_and_under_caps() -> None:
    kept = _compiled("gpt2")
    losses, state = _train(kept, "gpt2")
    assert not _recomputed(kept)
    asked = _compiled("gpt2", plan=dmc.plan().recompute("h.*").keep("h.*.attn"))
    found = _recomputed(asked)
    assert {label.split(".")[2] for label in found} == {"0", "1"}
    assert not any(".attn" in label for label in found)
    assert _arena(asked) < _arena(kept)
    with pytest.raises(MemoryCapError) as refusal:
        _compiled("gpt2", memory_cap=_arena(kept) // 8)
    smallest = int(refusal.value.hint.split("memory_cap=")[1].split(",")[0])
    assert smallest < 0.8 * _arena(kept)
    capped = _compiled("gpt2", memory_cap=smallest)
    assert _arena(capped) <= smallest
    for step in (asked, capped):
        again, after = _train(step, "gpt2")
        assert again == losses
        assert_same_bits(after, state)


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.dropout = nn.Linear(32, 64), nn.Linear(64, 32), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.down(nn.functional.gelu(self.up(x))))


class _Blocks(nn.Module):
    """Two blocks; the second is checkpointed as `reentrant` says, or not at all."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.reentrant = _Block(), _Block(), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return self.second(h) if self.reentrant is None else checkpoint(self.second, h, use_reentrant=self.reentrant)


def test_checkpoints_of_the_model_are_computed_again() -> None:
    example = (torch.linspace(-1, 1, 64 * 32).reshape(64, 32), torch.zeros(64, 32))
    ends: list[Any] = []
    for reentrant in (None, False, True):
        options: dict[str, Any] = {"loss": nn.functional.mse_loss, "example": example, "verify": False}
        step = dmc.compile(_Blocks(reentrant), optimizer=dmc.optim.SGD(lr=0.1), **options)
        found = {label.partition(",")[0] for label in _recomputed(step)}
        assert ("second.up" in found) == (reentrant is not None)
        assert not any(label.startswith("first") for label in found)
        ends.append(([float(step(*example)) for _ in range(2)], step.state_dict()))
    for losses, state in ends[1:]:
        assert losses == ends[0][0]
        assert_same_bits(state, ends[0][1])
