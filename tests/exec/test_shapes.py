"""Several shapes: one program for each, over the same state in memory."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc.errors import ArtifactError, DmcError, InputError
from dmc.runtime.reports.memory.report import report
from tests.exec.test_evaluation import Net
from tests.large import large_unless

SIZES = (8, 4)
# One rank is in an example, the buckets; ZeRO-3 also splits what ZeRO-2 does.
ZERO3 = dmc.plans.zero3("dp")
PLANS = large_unless((ZERO3,), (None, dmc.plans.zero2("dp"), ZERO3))


def _batch(rows: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 6, generator=draw), torch.randint(4, (rows,), generator=draw)


def _model() -> nn.Module:
    torch.manual_seed(0)
    model = Net()
    model.body[3] = nn.Identity()
    return model


def _optimizer() -> dmc.optim.AdamW:
    return dmc.optim.AdamW(lr=0.01, eps=1e-5, clip_grad_norm=1.0)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_batches_of_two_sizes_train_one_state(plan: Any, tmp_path: Path) -> None:
    """Alternating sizes are eager's steps, and evaluations its evaluations; also from a file, and on ranks. Reports
    are of each program."""
    model = _model()
    own = copy.deepcopy(model)
    mesh = dmc.Mesh(dp=2)
    placed: dict[str, Any] = {} if plan is None else {"mesh": mesh, "plan": dmc.plan(mesh).use(plan)}
    step: Any = dmc.compile(
        model,
        loss=functional.cross_entropy,
        optimizer=_optimizer(),
        example=[_batch(rows) for rows in SIZES],
        evaluation=True,
        verify=True,
        **placed,
    )
    optimizer = torch.optim.AdamW(own.parameters(), lr=0.01, eps=1e-5)
    for number, rows in enumerate((8, 4, 4, 8, 4)):
        batch = _batch(rows, number)
        if number == 3:
            step.save(tmp_path / "step.dmc")
            step.close()
            step = dmc.load(tmp_path / "step.dmc")
        np.testing.assert_allclose(step(*batch).item(), _eager(own, optimizer, batch), rtol=2e-4)
        own.eval()
        with torch.no_grad():
            expected = float(functional.cross_entropy(own(batch[0]), batch[1]))
        own.train()
        np.testing.assert_allclose(step.evaluate(*batch).item(), expected, rtol=2e-4)
    for name, tensor in own.state_dict().items():
        np.testing.assert_allclose(step.state_dict()["model"][name].numpy(), tensor.numpy(), rtol=2e-3, atol=2e-5)
    _assert_other_sizes_are_refused(step)
    _assert_reports_of_each(step)


def _assert_other_sizes_are_refused(step: dmc.CompiledStep) -> None:
    message = (
        r"input 'x': expected f32\[4, 6\], got f32\[3, 6\]\n  hint: shapes are fixed when a step is compiled: leave a "
        r"last batch out \(drop_last=True of a DataLoader\)"
    )
    for call in (step, step.evaluate):
        with pytest.raises(InputError, match=message):
            call(*_batch(3))
        with pytest.raises(InputError, match=r"expected f32\[8, 6\], got f32\[9, 6\]\n.*pad or crop the data"):
            call(*_batch(9))
        with pytest.raises(InputError, match="expected 2 positional inputs, got 1"):
            call(_batch(8)[0])


def _assert_reports_of_each(step: dmc.CompiledStep) -> None:
    whole = step.snapshot()
    assert whole.names == ["training", "training-1", "evaluation", "evaluation-1"]
    for name in whole.names:
        program = whole.program(name, "the step")
        assert step.plan(program=name).job == program.job
        assert step.ledger(name) == program.ledger
        assert step.memory(name).text() == report(program.job).text()
    assert len({step.memory(name).text() for name in whole.names}) == len(whole.names)
    for shown in (step.plan, step.ledger, step.memory):
        with pytest.raises(
            ArtifactError, match=r"the step: has no program 'training-2'\n  hint: it has training, training-1, eval"
        ):
            shown(program="training-2")


def _eager(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> float:
    loss = functional.cross_entropy(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def test_examples_of_evaluation_and_counts_of_their_own() -> None:
    """Full batches of three micro-batches, a last one of two, and evaluation of another shape alone."""
    model = nn.Linear(4, 2)
    shapes = {"full": 6, "last": 4, "evaluated": 5}
    batches = {name: (torch.randn(rows, 4), torch.randn(rows, 2)) for name, rows in shapes.items()}
    step = dmc.compile(
        model,
        loss=functional.mse_loss,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        example=[batches["full"], batches["last"]],
        accumulate=[3, 2],
        evaluation=True,
        evaluation_example=batches["evaluated"],
        verify=True,
    )
    assert step.snapshot().names == ["training", "training-1", "evaluation"]
    for name in ("full", "last"):
        step(*batches[name])
    step.update(model)
    inputs, targets = batches["evaluated"]
    assert step.evaluate(inputs, targets).item() == pytest.approx(functional.mse_loss(model(inputs), targets).item())
    with pytest.raises(InputError, match="x"):
        step.evaluate(*batches["full"])


def test_counts_and_examples_that_do_not_fit_are_refused() -> None:
    model, batch = nn.Linear(4, 2), (torch.randn(6, 4), torch.randn(6, 2))
    given: dict[str, Any] = {"loss": functional.mse_loss, "optimizer": dmc.optim.SGD(lr=0.1), "example": batch}
    with pytest.raises(DmcError, match="accumulate: has 2 numbers, and the examples are 1"):
        dmc.compile(model, **given, accumulate=[1, 2])
    with pytest.raises(DmcError, match="evaluation_example: is given for a step that is not evaluated"):
        dmc.compile(model, **given, evaluation_example=batch)
    with pytest.raises(DmcError, match="evaluation_example: is an empty list"):
        dmc.compile(model, **given, evaluation=True, evaluation_example=[])
