"""Five training steps of every model agree with PyTorch eager: same weights, same batches, no dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

import dmc
from tests.compiled import clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer
from tests.large import large, large_unless
from tests.models import NAMES, build
from tests.models.case import Batch
from tests.tolerance import TOLERANCE, State, assert_losses_close, assert_states_close, distance

STEPS = 5
# A larger rate would lose the comparison of batch-norm models to the growth of rounding errors from step to step.
RATES = {"resnet": 0.01}
ADAMW_MODELS = ("gpt2", "llama", "bert", "lstm", "demo_gpt")
# A BERT rounds where a Llama does; what it has of its own is in test_whole_composites, in GPT-2.
QUICK_BF16 = ("llama", "lstm")
# RoBERTa is a BERT with other positions, and a BERT is in test_examples; the demo's GPT is a GPT-2; a GRU is also in
# test_composites.
QUICK_SGD = tuple(name for name in NAMES if name not in ("bert", "roberta", "demo_gpt", "gru"))

Reference = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


@pytest.mark.parametrize("name", large_unless(QUICK_SGD, NAMES))
def test_sgd_agrees_with_eager(name: str) -> None:
    # SGD is the strictest check of gradients: Adam does not see a gradient that is wrong by a factor.
    rate = RATES.get(name, 0.05)
    own = dmc.optim.SGD(lr=rate, momentum=0.9)
    _compare(name, own, lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=0.9), "fp32")


# AdamW and clipping see tensors only: they are in test_arenas and, with tied weights, in test_examples.
@large
@pytest.mark.parametrize("name", ADAMW_MODELS)
def test_adamw_with_clipping_agrees_with_eager(name: str) -> None:
    own = dmc.optim.AdamW(lr=1e-3, weight_decay=0.1, eps=1e-5, clip_grad_norm=1.0)
    _compare(
        name,
        own,
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, eps=1e-5),
        "fp32-adamw",
        clip_grad_norm=1.0,
    )


@pytest.mark.parametrize("name", large_unless(QUICK_BF16, [name for name in NAMES if name != "resnet"]))
def test_bf16_mixed_agrees_with_autocast(name: str) -> None:
    own = dmc.optim.SGD(lr=0.05, momentum=0.9)
    _compare(
        name,
        own,
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        f"bf16-mixed-{name}" if f"bf16-mixed-{name}" in TOLERANCE else "bf16-mixed",
        precision="bf16-mixed",
    )


@large
def test_bf16_mixed_resnet_is_as_close_to_float32_as_autocast() -> None:
    # Rounding to bfloat16 flips ReLUs: after one step autocast is a quarter of the change away from float32, so two
    # right runs may be that far apart. What can be asked is to be no further away than autocast, and to keep the loss.
    case = build("resnet", dropout=0.0)
    start, batch = clone_state(case.model), case.example(0)
    step = compile_case(case, dmc.optim.SGD(lr=0.01), precision="bf16-mixed")
    (loss,) = train(step, [batch])
    exact, exact_loss = _one_eager_step("fp32", batch)
    autocast, _ = _one_eager_step("bf16-mixed", batch)
    assert loss == pytest.approx(exact_loss, rel=1e-2)
    assert distance(start, model_state(step), exact) <= 1.5 * distance(start, autocast, exact)


def _one_eager_step(precision: str, batch: Batch) -> tuple[State, float]:
    case = build("resnet", dropout=0.0)
    optimizer = torch.optim.SGD(case.model.parameters(), lr=0.01)
    loss = EagerTrainer(case.model, case.loss, optimizer, precision=precision).step(batch)
    return case.model.state_dict(), loss


def _compare(name: str, own: Any, reference: Reference, tolerance: str, **trainer: Any) -> None:
    case = build(name, dropout=0.0)
    start = clone_state(case.model)
    batches = [case.example(seed) for seed in range(STEPS)]
    step = compile_case(case, own, precision=trainer.get("precision", "fp32"))
    losses = train(step, batches)

    eager = build(name, dropout=0.0)
    reference_trainer = EagerTrainer(eager.model, eager.loss, reference(eager.model.parameters()), **trainer)
    expected = [reference_trainer.step(batch) for batch in batches]

    assert_losses_close(losses, expected, TOLERANCE[tolerance])
    assert_states_close(start, model_state(step), eager.model.state_dict(), TOLERANCE[tolerance])
