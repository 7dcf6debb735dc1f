"""Plans whose composites stay whole train as before: planned for a CPU and a GPU, carried out on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc.runtime import Step
from tests.compiled import clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer
from tests.kernels import problems
from tests.large import large
from tests.models import bert, build, gpt2, vit
from tests.models.case import Case
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS = 4
# The loss is computed with the gradient of its logits.
WHOLE = {"attention", "attention_backward", "softmax_cross_entropy_both", "embedding_backward"}


def kernels(step: Step) -> set[str]:
    """The kernels of a planned step without their numbers."""
    job = step.snapshot().job
    assert job is not None
    return {re.sub(r"_\d+$", "", name) for name in job.kernels}


def test_attention_with_dropout_reads_and_writes_the_fused_projection() -> None:
    case = gpt2.build(dropout=0.1, layers=1)
    # Verification draws in eager what the step draws, and compares all that the first step gives and leaves behind.
    step = compile_case(case, dmc.optim.SGD(lr=0.05), precision="bf16-mixed", target="cpu+cuda", verify=True)
    losses = train(step, [case.example(0)] * STEPS)
    assert losses[-1] < losses[0]
    found = {each.problem.kind: each for each in problems(step).values()}
    assert found.keys() == WHOLE
    # Four sequences of 16 tokens, four heads of width 16: a row of the projection holds 3 × 64 numbers of two bytes.
    of_projection, of_result = (16 * 192, 16, 192, 1), (16 * 64, 16, 64, 1)
    forward, backward = found["attention"], found["attention_backward"]
    *gradients, sums = backward.results
    for inside in (forward.operands[:3], backward.operands[1:4], gradients):
        assert len({each.index for each in inside}) == 1
        assert [each.offset for each in inside] == [0, 2 * 64, 4 * 64]
    dout, *taken = backward.problem.operands
    projected = (*forward.problem.operands[:3], *taken[:3], *backward.problem.results[:3])
    assert {each.strides for each in projected} == {of_projection}
    assert {each.strides for each in (forward.problem.results[0], dout)} == {of_result}
    # The gradient of the projection's bias.
    assert (sums.offset, sums.length, sums.index) == (0, 4 * 192, 1 - gradients[0].index)
    # Nothing is copied between the projections and the kernels of attention.
    assert "transpose" not in kernels(step)


MESH = dmc.Mesh(dp=2, tp=2)
DATA, GPT2 = dmc.plans.data_parallel("dp"), dmc.plans.megatron_gpt2("tp")
# Of small models: this is about each mesh, not about depth.
MODELS: dict[str, Callable[[float], Case]] = {
    "gpt2": partial(gpt2.build, layers=1),
    "bert": bert.build,
    "vit": vit.build,
}
PLANS = {
    "gpt2": dmc.plan(MESH).use(DATA).use(GPT2),
    "bert": dmc.plan(dmc.Mesh(dp=2)).use(DATA),
    "vit": dmc.plan(dmc.Mesh(dp=2)).use(DATA),
}


# Quick are a mesh without dropout, in test_merged_products, and dropout on ranks, in test_rehearsal.
@large
@pytest.mark.parametrize("name", PLANS)
def test_attention_with_dropout_stays_whole_on_every_mesh(name: str) -> None:
    plan, optimizer, case = PLANS[name], dmc.optim.SGD(lr=0.05), MODELS[name](0.1)
    alone = compile_case(case, optimizer)
    step = compile_case(case, optimizer, mesh=plan.mesh, plan=plan, target="cpu+cuda")
    batches = [case.example(seed) for seed in range(STEPS)]
    # All ranks draw what one would: another mask changes a loss by a hundredth.
    assert_losses_close(train(step, batches), train(alone, batches), TOLERANCE["fp32"])
    assert step.differing_replicas() == ()
    found = {each.problem.kind: each.problem for each in problems(step).values()}
    for kind in ("attention", "attention_backward"):
        *_, batch, head = found[kind].operands
        whole = found[kind].number("whole_0"), found[kind].number("whole_1")
        sizes = (batch.elements * plan.mesh.axis_size("dp"), head.elements * (plan.mesh.size // 2))
        assert sizes == whole


# Quick is a GPT-2 in bfloat16, verified.
@large
@pytest.mark.parametrize("precision", ["fp32", "bf16-mixed"])
def test_steps_agree_with_eager(precision: str) -> None:
    case = build("bert", dropout=0.0)
    start, batches = clone_state(case.model), [case.example(seed) for seed in range(STEPS)]
    step = compile_case(case, dmc.optim.SGD(lr=0.05, momentum=0.9), precision=precision, target="cpu+cuda")
    assert {each.problem.kind for each in problems(step).values()} == WHOLE
    losses = train(step, batches)
    eager = build("bert", dropout=0.0)
    optimizer = torch.optim.SGD(eager.model.parameters(), lr=0.05, momentum=0.9)
    trainer = EagerTrainer(eager.model, eager.loss, optimizer, precision=precision)
    assert_losses_close(losses, [trainer.step(batch) for batch in batches], TOLERANCE[precision])
    assert_states_close(start, model_state(step), eager.model.state_dict(), TOLERANCE[precision])


class TwoHeads(nn.Module):
    """Two classifiers of one layer, whose losses are multiplied: the gradient of each waits for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 10), nn.Linear(32, 12)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """f32[batch, 16], int64[batch] -> f32[]"""
        hidden = self.layer(x).relu()
        return functional.cross_entropy(self.first(hidden), targets) * functional.cross_entropy(
            self.second(hidden), targets
        )


def test_losses_that_wait_for_each_other() -> None:
    torch.manual_seed(0)
    example = {"x": torch.randn(8, 16), "targets": torch.randint(0, 10, (8,))}
    step = dmc.compile(TwoHeads(), optimizer=dmc.optim.SGD(lr=0.05), example=example, target="cpu+cuda", verify=True)
    found = [each.problem.kind for each in problems(step).values()]
    step.close()
    assert sorted(found) == [
        "softmax_cross_entropy",
        "softmax_cross_entropy_backward",
        "softmax_cross_entropy_both",
    ]
