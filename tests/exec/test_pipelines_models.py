"""The test models as two stages of a pipeline: the losses and the state of one rank with as many micro-batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dmc
from tests.compiled import compile_case, model_state, train
from tests.large import large_unless
from tests.models import bert, gpt2, llama, lstm, resnet, t5, vit
from tests.models.case import Case

STEPS = 3
QUICK = ("lstm",)
# The model, and the module that begins its second stage.
MODELS: dict[str, tuple[Callable[[float], Case], str]] = {
    "gpt2": (gpt2.build, "transformer.h.1"),
    "llama": (llama.build, "model.layers.1"),
    "bert": (bert.build, "bert.encoder.layer.1"),
    "t5": (t5.build, "decoder"),
    "vit": (vit.build, "vit.layers.1"),
    "resnet": (resnet.build, "stages.2"),
    "lstm": (lstm.build, "dropout"),
}


@pytest.mark.parametrize("name", large_unless(QUICK, MODELS))
def test_two_stages_train_like_one_rank(name: str) -> None:
    """With dropout, and batch norm's running statistics."""
    build, cut = MODELS[name]
    case = build(0.1)
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    batches = [case.example(seed) for seed in range(STEPS)]
    one = compile_case(case, optimizer, accumulate=2)
    plan = dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=[cut], microbatches=2)
    two = compile_case(case, optimizer, plan=plan, verify=True)
    assert train(two, batches) == pytest.approx(train(one, batches), rel=2e-6)
    expected = model_state(one)
    found = model_state(two)
    assert found.keys() == expected.keys()
    for each, tensor in expected.items():
        torch.testing.assert_close(found[each], tensor, rtol=1e-5, atol=1e-6, msg=each)
