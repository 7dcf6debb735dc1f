"""One rank of a mesh computes with the kernels of a step of its own; only movements, and what feeds them, are added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn

import dmc
from dmc.mesh import Mesh
from dmc.plans.builder import Recipe
from dmc.program import Collective, Launch
from dmc.program.code import Product
from dmc.runtime import Step
from tests.compiled import train
from tests.eager import EagerTrainer
from tests.large import large
from tests.models.case import Batch, Case
from tests.tolerance import TOLERANCE, assert_losses_close

STEPS, ROWS, WIDTH = 3, 32, 256
# Rows of so many classes are not aligned.
CLASSES = 1002
DP2 = Mesh(dp=2)


def _case(rows: int) -> Case:
    """A classifier whose weights are large enough to be moved narrow."""
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Tanh())]

    def example(seed: int) -> Batch:
        torch.manual_seed(seed)
        return torch.randn(rows, WIDTH), torch.randint(CLASSES, (rows,))

    net = nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))
    return Case("classifier", net, nn.functional.cross_entropy, example)


def _compiled(rows: int, plan: dmc.plans.Plan | None) -> Step:
    case = _case(rows)
    return dmc.compile(
        case.model,
        loss=case.loss,
        optimizer=dmc.optim.AdamW(lr=1e-3, weight_decay=0.1, clip_grad_norm=1.0),
        example=case.example(0),
        precision="bf16-mixed",
        mesh=None if plan is None else plan.mesh,
        plan=plan,
        target="cpu+cuda",
        machine="h200" if plan is None else "h200x2",
        verify=False,
    )


@pytest.fixture(scope="module")
def alone() -> Step:
    """A rank's share of the batch, alone."""
    return _compiled(ROWS, None)


@pytest.fixture(scope="module")
def whole() -> list[float]:
    """Eager's losses of the whole batch, learnt by heart: they fall only where every rank's gradient is taken."""
    case = _case(2 * ROWS)
    optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-3, weight_decay=0.1)
    trainer = EagerTrainer(case.model, case.loss, optimizer, clip_grad_norm=1.0, precision="bf16-mixed")
    return [trainer.step(case.example(0)) for _ in range(STEPS)]


def _kinds(step: Step) -> tuple[Counter[str], int, int]:
    """Of a rank: launches of the loss and of copies of views, products of the library, and all launches."""
    artifact = step.snapshot()
    assert artifact.job is not None and artifact.code is not None
    names = [each.kernel for each in artifact.job.programs[0].commands if isinstance(each, Launch)]
    named = Counter(name.rpartition("_")[0] for name in names)
    kinds = ("softmax_cross_entropy_both", "slice", "pad")
    products = sum(any(isinstance(part, Product) for part in artifact.code.kernels[name]) for name in names)
    return Counter({kind: named[kind] for kind in kinds if named[kind]}), products, len(names)


@pytest.mark.parametrize("way", [pytest.param(dmc.plans.data_parallel, marks=large), dmc.plans.zero2])
def test_a_rank_has_the_kernels_of_one_alone(alone: Step, whole: list[float], way: Callable[[str], Recipe]) -> None:
    step = _compiled(2 * ROWS, dmc.plan(DP2).use(way("dp")))
    (kinds, products, launches), (own_kinds, own_products, own_launches) = _kinds(step), _kinds(alone)
    assert (kinds, products) == (own_kinds, own_products)
    # The sum of squares of the gradients is no longer a part of the kernels that compute them.
    assert launches <= own_launches + 12
    job = step.snapshot().job
    assert job is not None
    moved = [each for each in job.programs[0].commands if isinstance(each, Collective)]
    large = [each for each in moved if each.reduction is not None and each.count >= WIDTH * WIDTH]
    assert large and {each.dtype for each in large} == {"bf16"}
    losses = train(step, [_case(2 * ROWS).example(0)] * STEPS)
    assert_losses_close(losses, whole, TOLERANCE["bf16-mixed"])
    assert step.differing_replicas() == ()
