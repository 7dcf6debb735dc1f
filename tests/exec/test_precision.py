"""Precisions: what is kept in which type, and that long sums are not added up in bfloat16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dmc
from tests.compiled import clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer
from tests.models import demo_gpt
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close, distance

ROWS = 4096  # A sum in bfloat16 stands still after 256 equal terms.


@pytest.mark.parametrize(("precision", "dtype"), [("bf16-mixed", torch.float32), ("bf16", torch.bfloat16)])
def test_state_is_kept_in(precision: str, dtype: torch.dtype) -> None:
    example = (torch.ones(4, 3), torch.ones(4, 2))
    optimizer = dmc.optim.AdamW(lr=1e-2)
    loss = nn.functional.mse_loss
    step = dmc.compile(nn.Linear(3, 2), loss=loss, optimizer=optimizer, example=example, precision=precision)
    train(step, [example])
    state = step.state_dict()
    tensors = [*state["model"].values(), *state["optimizer"].values()]
    assert {tensor.dtype for tensor in tensors} == {dtype}


class ManyRows(nn.Module):
    """Layers side by side whose gradients are sums over 4096 rows, or pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.convolution = nn.Linear(8, 8), nn.LayerNorm(8), nn.Conv2d(8, 8, 1)

    def forward(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """[ROWS, 8] → that of each layer."""
        return [self.linear(rows), self.norm(rows), self.convolution(rows.view(-1, 8, 8, 8))]


def _long_sums(outputs: list[torch.Tensor], target: torch.Tensor) -> Any:
    return sum((each.float() - target.float()).square().mean() for each in outputs)


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16"])
def test_gradients_over_many_rows_are_not_summed_in_bf16(precision: str) -> None:
    torch.manual_seed(0)
    model, batch = ManyRows(), (torch.randn(ROWS, 8), torch.tensor(3.0))
    optimizer = dmc.optim.SGD(lr=0.5)
    start = clone_state(model)
    step = dmc.compile(model, loss=_long_sums, optimizer=optimizer, example=batch, precision=precision)
    train(step, [batch])
    EagerTrainer(model, _long_sums, torch.optim.SGD(model.parameters(), lr=0.5)).step(batch)
    after = model_state(step)
    for name, expected in model.state_dict().items():
        error = distance({name: start[name]}, {name: after[name]}, {name: expected})
        assert error <= 2e-2, f"the change of {name} is {error:.1%} away from float32"


OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "momentum": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "nesterov": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    "adamw": (dmc.optim.AdamW, torch.optim.AdamW, {"lr": 0.02}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_in_bf16_agree_with_torch(name: str) -> None:
    # A parameter and its state are updated in place, by several kernels where types are converted between: none may
    # read what another has already overwritten.
    own, reference, options = OPTIMIZERS[name]
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    batch = (torch.randn(8, 4), torch.randn(8, 3))
    loss = nn.functional.mse_loss
    step = dmc.compile(model, loss=loss, optimizer=own(**options), example=batch, precision="bf16")
    model = model.bfloat16()
    start = clone_state(model)
    trainer = EagerTrainer(model, loss, reference(model.parameters(), **options))
    for _ in range(3):
        train(step, [batch])
        trainer.step((batch[0].bfloat16(), batch[1].bfloat16()))
    assert_states_close(start, model_state(step), model.state_dict(), TOLERANCE["bf16"])


def test_bf16_agrees_with_a_bf16_model() -> None:
    case, eager = (demo_gpt.build(dropout=0.0, layers=1) for _ in range(2))
    batches = [case.example(seed) for seed in range(5)]
    step = compile_case(case, dmc.optim.SGD(lr=0.05, momentum=0.9), precision="bf16")
    losses = train(step, batches)
    model = eager.model.bfloat16()
    start = clone_state(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    expected = [EagerTrainer(model, eager.loss, optimizer).step(batch) for batch in batches]
    assert_losses_close(losses, expected, TOLERANCE["bf16"])
    assert_states_close(start, model_state(step), model.state_dict(), TOLERANCE["bf16"])
