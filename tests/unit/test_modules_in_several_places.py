"""A module that stands in several places of a model is one module: its state is one, under each of its names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.interpreted import assert_refused, assert_trains_as_eager

WIDTH = 4


class Counted(nn.Module):
    """Buffers that each call writes, and one that it assigns."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)
        self.calls = nn.Buffer(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return self.norm(self.linear(x)) / self.calls


class Renamed(nn.Module):
    """The layer that `forward` calls has another name first."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList([self.first] * 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[1](self.layers[0](x).relu())


class Tied(nn.Module):
    """One buffer of two modules, one of which assigns it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Counted(), Counted()
        self.two.calls = self.one.calls

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) + self.two.calls


def _batches() -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(6, WIDTH), torch.randn(6, WIDTH)) for _ in range(3)]


def test_a_layer_that_is_used_twice(context: Any) -> None:
    torch.manual_seed(0)
    layer = Counted()
    assert_trains_as_eager(context, nn.Sequential(layer, nn.Tanh(), layer), functional.mse_loss, _batches())


def test_a_layer_that_is_called_by_its_second_name(context: Any) -> None:
    torch.manual_seed(0)
    step = assert_trains_as_eager(context, Renamed(), functional.mse_loss, _batches())
    first = next(spec for spec in step.signature.state if spec.name == "first.weight")
    assert set(first.aliases) == {"layers.0.weight", "layers.1.weight"}


@pytest.mark.parametrize("assigned", ["one", "two"])
def test_a_buffer_of_two_modules_is_not_assigned_in_one(context: Any, assigned: str) -> None:
    model = Tied()
    if assigned == "two":
        model.one, model.two = model.two, model.one
    assert_refused(context, model, "one buffer under several names", functional.mse_loss, _batches()[0])
