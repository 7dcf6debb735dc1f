"""An update of a part of a copy leaves the original as it is: parameters, buffers, frozen parameters, activations."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional

import dmc
from tests.compiled import clone_state, model_state, train
from tests.eager import EagerTrainer
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

SHAPE = (4, 8)
BATCH = (torch.arange(32.0).reshape(SHAPE) / 32, torch.ones(SHAPE))


class Model(nn.Module):
    """Copies of everything, parts of which are written, beside the originals."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.other = (nn.Parameter(torch.randn(SHAPE)) for _ in range(2))
        self.frozen = nn.Parameter(torch.randn(SHAPE), requires_grad=False)
        self.register_buffer("kept", torch.randn(SHAPE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[4, 8] → f32[4, 8]."""
        a, b, c, d = (each.clone() for each in (self.weight, self.frozen, self.get_buffer("kept"), x))
        a[:, ::2] *= 2.0
        b[:, 1::3] = 7.0
        c[::2] = self.other[::2]
        d[:, 3] += 1.0
        activation = torch.tanh(a + self.weight)
        e, f = activation.clone(), activation.clone()
        e[1] += 1.0
        f[:, :3] = x[:, 5:]
        f[1:, :] *= 3.0
        return a + b * self.other + c + d + e + f + activation


def test_what_is_copied_stays_as_it_is() -> None:
    model = Model()
    eager_model, start = copy.deepcopy(model), clone_state(model)
    step = dmc.compile(model, loss=functional.mse_loss, optimizer=dmc.optim.SGD(lr=0.1), example=BATCH)
    optimizer = torch.optim.SGD([eager_model.weight, eager_model.other], lr=0.1)
    eager = EagerTrainer(eager_model, functional.mse_loss, optimizer)
    losses = train(step, [BATCH] * 3)
    assert_losses_close(losses, [eager.step(BATCH) for _ in range(3)], TOLERANCE["fp32"])
    assert_states_close(start, model_state(step), eager_model.state_dict(), TOLERANCE["fp32"])
    step.close()
