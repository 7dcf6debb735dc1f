"""A compiled step carries what a forward pass changes, and takes users' backward passes; all kinds in one model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dmc
from tests.compiled import assert_same_bits, clone_state, model_state, train
from tests.eager import EagerTrainer
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

WIDTH = 6


class Reverse(torch.autograd.Function):
    """The identity with its gradient turned round."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return -grads[0]


class Network(nn.Module):
    """Counts, queues, teaches, clamps and reverses, with one batch norm that is frozen and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.frozen, self.norm = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)
        self.scale = nn.Parameter(torch.linspace(-1, 1, WIDTH))
        self.teacher = nn.Parameter(torch.zeros(WIDTH, WIDTH), requires_grad=False)
        self.count, self.queue = nn.Buffer(torch.zeros(())), nn.Buffer(torch.arange(4.0 * WIDTH).view(4, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """f32[4, WIDTH] → f32[4, WIDTH]."""
        with torch.no_grad():
            self.teacher.lerp_(self.linear.weight, 0.5)
            self.scale.clamp_(min=0.1)
        h = self.norm(self.frozen(self.linear(x))) * self.scale
        self.count = self.count + 1
        self.queue = torch.roll(self.queue, 1, 0)
        self.queue[0] = h.detach().mean(0)
        reversed_gradient: Any = Reverse.apply(h)
        return self.head(reversed_gradient) + x @ self.teacher / self.count + self.queue.mean(0)


def test_all_kinds_of_state_agree_with_eager(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Network()
    model.frozen.eval()
    eager = copy.deepcopy(model)
    start = clone_state(model)
    batches = [(torch.randn(8, WIDTH), torch.randn(8, WIDTH)) for _ in range(4)]
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=0.1, momentum=0.9)
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=batches[0], accumulate=2)
    assert not model.frozen.training and model.norm.training
    assert_same_bits(model.state_dict(), start)
    losses = train(step, batches[:2])
    step.save(tmp_path / "step.dmc")
    losses += train(dmc.load(tmp_path / "step.dmc"), batches[2:])
    train(step, batches[2:])
    trainer = EagerTrainer(eager, loss, torch.optim.SGD(eager.parameters(), lr=0.1, momentum=0.9), accumulate=2)
    expected = [trainer.step(batch) for batch in batches]
    assert_losses_close(losses, expected, TOLERANCE["fp32"])
    assert_states_close(start, model_state(step), eager.state_dict(), TOLERANCE["fp32"])
