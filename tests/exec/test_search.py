"""`plan="auto"`: a step under the plan that is found trains as on one rank."""

from __future__ import annotations

from typing import Any

import pytest
from torch.nn import functional

import dmc
from dmc.observer import RecordingObserver
from tests.compiled import clone_state, model_state, train
from tests.searched import MACHINE, batch, blocks
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close


def _compiled(**options: Any) -> Any:
    optimizer = dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0)
    model, example = blocks(32, 3, is_meta=False), batch(2, 64)
    given: dict[str, Any] = {"loss": functional.mse_loss, "optimizer": optimizer, "example": example, "verify": False}
    return dmc.compile(model, **given, **options)


def test_a_found_plan_trains_as_one_rank_and_can_be_given_again() -> None:
    batches = [batch(2, 64, seed) for seed in range(3)]
    observer, start = RecordingObserver(), clone_state(blocks(32, 3, is_meta=False))
    found = _compiled(plan="auto", machine=MACHINE, observer=observer)
    one = _compiled()
    (note,) = [each for each in observer.notes if each.startswith('plan="auto" is')]
    lines: dict[str, Any] = {}
    exec(note.partition("\n")[2], {"dmc": dmc}, lines)
    again = _compiled(plan=lines["plan"], machine=MACHINE)
    expected = train(one, batches)
    losses = train(found, batches)
    assert_losses_close(losses, expected, TOLERANCE["mesh"])
    assert_states_close(start, model_state(found), {name: model_state(one)[name] for name in start}, TOLERANCE["mesh"])
    assert found.differing_replicas() == ()
    assert train(again, batches) == losses, "the same plan"


def test_a_machine_is_needed() -> None:
    with pytest.raises(dmc.errors.PlanError, match="has no machine"):
        _compiled(plan="auto")
