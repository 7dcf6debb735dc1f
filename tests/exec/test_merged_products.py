"""Plans with merged products around attention train as eager: planned for a CPU and a GPU, carried out on the CPU."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc._mlir import ir
from dmc.passes.base import parse_pipeline, run_passes
from dmc.runtime import Step
from tests.compiled import model_state, train
from tests.eager import EagerTrainer
from tests.kernels import problems
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

BATCH, LENGTH, HEADS, HEAD = 4, 16, 2, 16
WIDTH = HEADS * HEAD


class Attention(nn.Module):
    """Attention with layers of their own for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        heads = ((self.query, x), (self.key, other), (self.value, other))
        q, k, v = (layer(each).view(*each.shape[:2], HEADS, HEAD).transpose(1, 2) for layer, each in heads)
        return x + functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)


class Model(nn.Module):
    """Attention within a sequence, and to another one."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.within, self.across = Attention(), Attention()

    def forward(self, x: Tensor) -> Tensor:
        x, other = self.before(x), self.other(x)
        return self.across(self.within(x, x), other)


def batch(seed: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(BATCH, LENGTH, WIDTH, generator=generator) for _ in range(2))
    return first, second


def compiled(model: nn.Module, **options: Any) -> Step:
    """Trained by gradient descent, with products in bfloat16."""
    optimizer = dmc.optim.SGD(lr=0.5, clip_grad_norm=10.0)
    options = {"optimizer": optimizer, "example": batch(0), "precision": "bf16-mixed", **options}
    return dmc.compile(model, loss=functional.mse_loss, target="cpu+cuda", **options)


def test_attention_reads_and_writes_columns_of_merged_products_and_trains_as_eager() -> None:
    torch.manual_seed(0)
    model = Model()
    eager, start = copy.deepcopy(model), copy.deepcopy(model).state_dict()
    step = compiled(model, verify=True)
    within, across = [each for each in problems(step).values() if each.problem.kind == "attention"]
    # A row holds queries, keys and values, or keys and values: numbers of two bytes.
    assert [each.offset for each in within.operands[:3]] == [0, 2 * WIDTH, 4 * WIDTH]
    assert [each.offset for each in across.operands[1:3]] == [0, 2 * WIDTH]
    gradients = [each for each in problems(step).values() if each.problem.kind == "attention_backward"]
    # Where all three lie side by side, the gradients of their biases are a result of their own.
    assert sorted(tuple(each.offset for each in one.results) for one in gradients) == [
        (0, 0, 2 * WIDTH),
        (0, 2 * WIDTH, 4 * WIDTH, 0),
    ]
    batches = [batch(seed) for seed in range(4)]
    losses = train(step, batches)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5)
    trainer = EagerTrainer(eager, functional.mse_loss, optimizer, precision="bf16-mixed", clip_grad_norm=10.0)
    assert_losses_close(losses, [trainer.step(each) for each in batches], TOLERANCE["bf16-mixed"])
    assert_states_close(start, model_state(step), eager.state_dict(), TOLERANCE["bf16-mixed"])


def test_a_plan_with_merged_products_is_proven_again_from_dumps(tmp_path: Path, context: Any) -> None:
    compiled(Model(), verify=False, dump_dir=tmp_path)
    (path,) = tmp_path.glob("*-planned.mlir")
    run_passes(ir.Module.parse(path.read_text(), context), parse_pipeline(f"dm-verify{{dumps={tmp_path}}}"))


def test_ranks_with_merged_products_train_as_one() -> None:
    torch.manual_seed(0)
    model, batches = Model(), [batch(seed) for seed in range(3)]
    alone = train(compiled(copy.deepcopy(model), verify=False), batches)
    mesh = dmc.Mesh(dp=2)
    # Gradients, rows of those of all weights, are moved apart.
    step = compiled(model, mesh=mesh, plan=dmc.plan(mesh).use(dmc.plans.zero2("dp")), verify=False)
    within = next(each for each in problems(step).values() if each.problem.kind == "attention")
    assert [each.offset for each in within.operands[:3]] == [0, 2 * WIDTH, 4 * WIDTH]
    assert_losses_close(train(step, batches), alone, TOLERANCE["bf16-mixed"])
    assert step.differing_replicas() == ()
