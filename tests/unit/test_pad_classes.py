"""A step computes the same where the classes of its loss are padded: interpreted, and planned with padded products."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import dmc
from dmc.api import compile_artifact
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import parse_pipeline, run_passes
from dmc.program.code import Product
from tests.compiled import model_state, train
from tests.eager import EagerTrainer
from tests.heads import CLASSES, Columns, Tied
from tests.partitioned import run_on_one_rank
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

PADDED, ROWS = 192, 24
BEFORE = "dm-absorb-casts,dm-inline-composites{keep_whole},canonicalize"
PADDING = "dm-pad-classes,cse"


def _loss(logits: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(logits, target, label_smoothing=0.1)


def _loss_and_size(logits: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(logits, target) + 0.01 * logits.square().mean()


def _batch(seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randint(0, CLASSES, (ROWS,), generator=generator) for _ in range(2))
    return first, second


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16_MIXED])
@pytest.mark.parametrize(
    ("make", "loss", "paddings"),
    [(Tied, _loss, 2), (lambda: Tied(bias=True), _loss, 3), (Columns, _loss, 2), (Tied, _loss_and_size, 1)],
)
def test_a_step_with_padding_gives_what_it_gave(
    context: Any, precision: Precision, make: Any, loss: Any, paddings: int
) -> None:
    torch.manual_seed(0)
    imported = import_step(make(), loss, dmc.optim.SGD(lr=0.5), _batch(), precision, 1, 0, context)
    state = [tensor.detach().clone().numpy() for tensor in imported.state.values()]
    given = [*state, np.array([0.5], np.float32), np.array(0, np.int32), *(tensor.numpy() for tensor in _batch())]
    run_passes(imported.module, parse_pipeline(BEFORE))
    before = run_on_one_rank(imported.module, [each.copy() for each in given])
    run_passes(imported.module, parse_pipeline(PADDING))
    assert str(imported.module).count("tensor.pad") == paddings
    after = run_on_one_rank(imported.module, [each.copy() for each in given])
    # Sums of other lengths are added up in another order.
    tolerance = 1e-6 if precision is Precision.FP32 else 4e-3
    for wanted, found in zip(before, after, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_a_plan_for_two_machines_has_padded_products_and_trains_as_eager(tmp_path: Any) -> None:
    torch.manual_seed(0)
    model, batches = Tied(), [_batch(seed) for seed in range(3)]
    eager, start = copy.deepcopy(model), copy.deepcopy(model).state_dict()
    options: dict[str, Any] = {"optimizer": dmc.optim.SGD(lr=0.5), "example": batches[0], "precision": "bf16-mixed"}
    artifact = compile_artifact(model, loss=_loss, target="cpu+cuda", **options)
    assert artifact.code is not None
    steps = [step for kernel in artifact.code.kernels.values() for step in kernel if isinstance(step, Product)]
    shapes = [{size for each in (step.left, step.right) for size in (each.rows, each.columns)} for step in steps]
    assert len([shape for shape in shapes if PADDED in shape]) == 3
    assert not any(CLASSES in shape for shape in shapes)
    artifact.write(tmp_path / "step.dmc")
    step = dmc.load(tmp_path / "step.dmc")
    losses = train(step, batches)
    trainer = EagerTrainer(eager, _loss, torch.optim.SGD(eager.parameters(), lr=0.5), precision="bf16-mixed")
    assert_losses_close(losses, [trainer.step(batch) for batch in batches], TOLERANCE["bf16-mixed"])
    assert_states_close(start, model_state(step), eager.state_dict(), TOLERANCE["bf16-mixed"])
