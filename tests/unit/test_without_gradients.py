"""Regions without gradients, of every kind: what they compute has none, and what they write keeps its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.interpreted import assert_trains_as_eager

WIDTH = 4
Layer = nn.Linear


class Model(nn.Module):
    """Calls `forward_of` with its layer."""

    def __init__(self, forward_of: Callable[[Layer, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = Layer(WIDTH, WIDTH)
        self.forward_of = forward_of

    def forward(self, x: Tensor) -> Tensor:
        """f32[5, WIDTH] → f32[5, WIDTH]."""
        return self.forward_of(self.layer, x)


def _in_inference_mode(layer: Layer, x: Tensor) -> Tensor:
    with torch.inference_mode():
        scale = layer(x).mean()
    return layer(x) * scale.clone()


@torch.inference_mode()
def _teacher(layer: Layer, x: Tensor) -> Tensor:
    return layer(x)


def _decorated(layer: Layer, x: Tensor) -> Tensor:
    return layer(x) - 0.5 * _teacher(layer, x)


def _out_of_inference_mode(layer: Layer, x: Tensor) -> Tensor:
    with torch.no_grad(), torch.inference_mode(False):
        inner = layer(x)
    return inner * layer(x)


def _row_of_a_parameter(layer: Layer, x: Tensor) -> Tensor:
    with torch.no_grad():
        layer.weight[0] = 0.0
        layer.weight.t()[1:].mul_(0.9)
    return layer(x)


def _part_of_a_result(layer: Layer, x: Tensor) -> Tensor:
    y = layer(x).tanh()
    z = y * 1.0
    with torch.no_grad():
        z[:, 1] *= 2.0
        z.view(-1)[::3] = 0.0
    return z * y


def _view_from_before(layer: Layer, x: Tensor) -> Tensor:
    y = layer(x) * 1.0
    rows = y[1:3]
    with torch.no_grad():
        rows[0].mul_(0.5)
        total = rows.t().sum()
    y[3].mul_(3.0)
    return y.square() + total


FORWARDS = (
    _in_inference_mode,
    _decorated,
    _out_of_inference_mode,
    _row_of_a_parameter,
    _part_of_a_result,
    _view_from_before,
)


@pytest.mark.parametrize("forward_of", FORWARDS)
def test_trains_as_eager(context: Any, forward_of: Callable[[Layer, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(5, WIDTH), torch.randn(5, WIDTH)) for _ in range(3)]
    assert_trains_as_eager(context, Model(forward_of), functional.mse_loss, batches)
