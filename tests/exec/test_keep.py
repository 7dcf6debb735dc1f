"""Steps that compute activations again in the backward pass: by the user's word and under caps, the same bits."""

from __future__ import annotations

from typing import Any

import pytest

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
