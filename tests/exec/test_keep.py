"""Steps that compute activations again in the backward pass: by the user's word and under caps, the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dmc
from dmc.program import Launch
from dmc.program.labels import RECOMPUTED
from dmc.runtime import Step
from tests.compiled import assert_same_bits, compile_case, train
from tests.models import build
from tests.models.case import Case, token_batch


def _case() -> Case:
    """A GPT-2 whose activations take more memory than its state."""
    return replace(build("gpt2", dropout=0.1), example=_tokens)


def _tokens(seed: int) -> dict[str, torch.Tensor]:
    tokens, _ = token_batch(seed, 16, 32, 128)
    return {"input_ids": tokens, "labels": tokens.clone()}


def _compiled(**options: Any) -> Step:
    return compile_case(_case(), dmc.optim.SGD(lr=0.1), verify=False, **options)


def _recomputed(step: Step) -> set[str]:
    labels = (each.label for each in step.snapshot().job.programs[0].commands if isinstance(each, Launch))
    return {label.removesuffix(RECOMPUTED) for label in labels if label.endswith(RECOMPUTED)}


def _arena(step: Step) -> int:
    return step.snapshot().job.programs[0].arenas["device"]


def _trained(step: Step) -> tuple[list[float], Any]:
    return train(step, [_tokens(0), _tokens(1)]), step.state_dict()


def test_a_gpt2_by_the_users_word_and_under_a_cap() -> None:
    kept = _compiled()
    losses, state = _trained(kept)
    assert not _recomputed(kept)
    asked = _compiled(plan=dmc.plan().recompute("h.*").keep("h.*.attn"))
    assert {label.split(".")[2] for label in _recomputed(asked)} == {"0", "1"}
    assert not any(".attn" in label for label in _recomputed(asked))
    assert _arena(asked) < _arena(kept)
    cap = 6 * _arena(kept) // 10
    capped = _compiled(memory_cap=cap)
    assert _arena(capped) <= cap
    for step in (asked, capped):
        again, after = _trained(step)
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
