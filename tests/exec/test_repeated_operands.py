"""Operands of a composite may be the same value twice, constants, or results; its results may be unused."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional

import dmc
from tests.compiled import clone_state, model_state, train
from tests.eager import EagerTrainer
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

WIDTH, ROWS = 4, 8


class Model(nn.Module):
    """One composite on the results of others, in every way that shares operands."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, WIDTH)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """f32[ROWS, 6] → f32[ROWS, WIDTH], and an operand as it is."""
        h = self.linear(x)
        heads = h[None, None]
        attention = functional.scaled_dot_product_attention(heads, heads, heads)[0, 0]
        scaled = functional.layer_norm(h, (WIDTH,), self.linear.bias, self.linear.bias)
        ones = torch.ones(WIDTH)
        by_constants = functional.layer_norm(torch.ones(ROWS, WIDTH), (WIDTH,), ones, ones)
        functional.gelu(h)
        functional.layer_norm(attention, (WIDTH,))
        # Of one row, without a dimension for it.
        bias = self.linear.bias
        row = functional.layer_norm(bias, (WIDTH,), bias, bias) + functional.rms_norm(bias, (WIDTH,), bias)
        looked_up = functional.embedding(torch.zeros(ROWS, dtype=torch.int64), self.linear.weight)[:, :WIDTH]
        return attention + scaled + by_constants + row + functional.gelu(functional.gelu(h)) + looked_up, h


def _loss(outputs: tuple[torch.Tensor, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(outputs[0], targets) + outputs[1].mean()


def test_operands_may_be_shared() -> None:
    torch.manual_seed(0)
    model, batch = Model(), (torch.randn(ROWS, 6), torch.randn(ROWS, WIDTH))
    eager_model = copy.deepcopy(model)
    start = clone_state(model)
    # A first moment that is the gradient itself: the update reads it in two places.
    betas = (0.0, 0.9)
    step = dmc.compile(model, loss=_loss, optimizer=dmc.optim.Adam(lr=1e-2, betas=betas, eps=1e-3), example=batch)
    eager = EagerTrainer(eager_model, _loss, torch.optim.Adam(eager_model.parameters(), lr=1e-2, betas=betas, eps=1e-3))
    losses = train(step, [batch] * 3)
    assert_losses_close(losses, [eager.step(batch) for _ in range(3)], TOLERANCE["fp32"])
    assert_states_close(start, model_state(step), eager_model.state_dict(), TOLERANCE["fp32"])
    step.close()
