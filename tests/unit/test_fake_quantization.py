"""Training that is aware of quantisation: numbers are rounded to a grid, and gradients pass within it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.interpreted import InterpretedStep, assert_trains_as_eager

WIDTH = 4


class Quantized(nn.Module):
    """Grids of each kind: by numbers, by tensors, and for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Parameter(torch.randn(WIDTH, WIDTH)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.fake_quantize_per_tensor_affine(x, 1 / 255, 0, 0, 255)
        x = functional.linear(x, torch.fake_quantize_per_tensor_affine(self.one, 0.07, 3, -4, 7))
        step = self.two.detach().abs().max() / 5
        x = functional.linear(x, torch.fake_quantize_per_tensor_affine(self.two, step, torch.tensor(1).int(), -4, 5))
        steps, zeros = self.three.detach().abs().amax(0) / 7, torch.tensor([0, 1, -2, 0]).int()
        return functional.linear(x, torch.fake_quantize_per_channel_affine(self.three, steps, zeros, 1, -5, 7))


def test_trains_as_eager(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(5, WIDTH), torch.randn(5, WIDTH)) for _ in range(3)]
    assert_trains_as_eager(context, Quantized(), functional.mse_loss, batches)


class Grid(nn.Module):
    def __init__(self, numbers: list[float]) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.tensor(numbers))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(self.numbers, 0.5, 0, -2, 2) * x


def _sum(x: Tensor, _: Tensor) -> Tensor:
    return x.sum()


def test_ties_and_what_is_beyond_the_grid(context: Any) -> None:
    numbers = [0.25, 0.75, -0.25, 1.25, 1.24, -7.0, math.inf, -math.inf, math.nan, 1e30]
    model, x = Grid(numbers), torch.arange(1.0, 11.0)
    expected = _sum(model(x), x)
    expected.backward()
    step = InterpretedStep(context, model, _sum, (x, x))
    assert step(x, x) == expected.item()
    after = step.model_state()["numbers"]
    assert model.numbers.grad is not None
    torch.testing.assert_close(after, model.numbers.detach() - 0.1 * model.numbers.grad, equal_nan=True)
