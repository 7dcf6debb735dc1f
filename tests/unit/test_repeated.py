"""`repeat_interleave` by a tensor: of numbers that the model makes itself, or of a given sum."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dmc.errors import ImportFailure
from dmc.importer.capture.capture import capture
from tests.interpreted import InterpretedStep, assert_trains_as_eager

NODES, EDGES = 4, 6


class Graph(nn.Module):
    """Features of nodes, repeated for the edges of each, of which the batch has `degrees`."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Parameter(torch.randn(NODES, 3))
        self.pairs = nn.Parameter(torch.randn(EDGES, 2))

    def forward(self, degrees: Tensor) -> Tensor:
        """int64[NODES] → [EDGES, 3]."""
        sent = self.features.repeat_interleave(degrees, 0, output_size=EDGES)
        owners = torch.repeat_interleave(degrees, output_size=EDGES)
        own = torch.tensor([1, 0, 3, 2])
        fixed = torch.repeat_interleave(input=self.features, repeats=own, dim=0) + self.features.repeat_interleave(
            own, 0
        )
        twice = self.pairs.repeat_interleave(torch.tensor(2), 1)[:, :3] + self.pairs.repeat_interleave(2)[:EDGES, None]
        return sent * owners[:, None] + fixed * twice + self.features.repeat_interleave(torch.tensor([1]))[:EDGES, None]


def test_trains_as_eager(context: Any) -> None:
    torch.manual_seed(0)
    degrees = torch.tensor([[1, 2, 3, 0], [6, 0, 0, 0], [0, 0, 3, 3]])
    assert_trains_as_eager(context, Graph(), functional.mse_loss, [(each, torch.randn(EDGES, 3)) for each in degrees])


@pytest.mark.parametrize("degrees", [[1, 2, 3, 1], [1, 2, 2, 0], [3, -1, 4, 0]])
def test_another_sum_gives_no_number(context: Any, degrees: list[int]) -> None:
    right, target = torch.tensor([1, 2, 3, 0]), torch.randn(EDGES, 3)
    model = Graph()
    step = InterpretedStep(context, model, functional.mse_loss, (right, target))
    assert math.isfinite(float(step(right, target)))
    with pytest.raises(RuntimeError):
        model(torch.tensor(degrees))
    assert math.isnan(float(step(torch.tensor(degrees), target)))


class Unsized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(NODES))

    def forward(self, degrees: Tensor) -> Tensor:
        return self.weight.repeat_interleave(degrees).sum()


def test_an_unknown_sum_is_refused() -> None:
    with pytest.raises(ImportFailure, match=r"returns a tensor whose shape depends on data\n.*output_size=n"):
        capture(Unsized(), None, (torch.tensor([1, 2, 3, 0]),), None)
