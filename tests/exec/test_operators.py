"""Operators whose values or gradients are easily wrong, several in one compiled step, beside PyTorch eager."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from tests.compiled import assert_descends_as_eager

WEIGHT = torch.tensor([1.0, 5.0, 0.2])
CHANNELS = 64


class Heads(nn.Module):
    """One parameter for each operator, so that each has a gradient of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.eye(3))
        self.image = nn.Parameter(torch.arange(6.0).view(1, 1, 1, 6))
        self.scores = nn.Parameter(torch.tensor([[5.0, 1.0, 2.0, 3.0], [0.5, 4.0, 6.0, -1.0]]))

    def forward(self, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The losses of the heads; `mask` f32[2, 4] is added to scores of which the two largest are taken."""
        target = torch.tensor([0, 1, 2])
        weighted = functional.cross_entropy(self.logits, target, weight=WEIGHT.to(mask.device))
        stretched = functional.interpolate(self.image, size=(1, 9))
        ramp = torch.arange(9.0)
        values, places = (self.scores + mask).topk(2)
        routed = torch.where(values == -math.inf, 0.0, values + places * torch.tensor([1.0, 3.0])).sum()
        return weighted, (stretched * ramp).sum() / 9.0 + routed


def _total(outputs: Any, scale: torch.Tensor) -> torch.Tensor:
    first, second = outputs
    return scale * (first + second)


def test_heads_descend_as_eager() -> None:
    torch.manual_seed(0)
    model = Heads()
    # With one score left in the first row, the second largest is minus infinity, wherever that is.
    mask = torch.tensor([[0.0, -math.inf, -math.inf, -math.inf], [0.0, 0.0, 0.0, -math.inf]])
    batch = (mask, torch.ones(()))
    step = dmc.compile(model, loss=_total, optimizer=dmc.optim.SGD(lr=1.0), example=batch)
    assert_descends_as_eager(step, model, _total, batch)


def test_channels_are_dropped_whole_and_in_place() -> None:
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            kept = functional.dropout2d(x * self.scale, 0.5)
            changed = x * self.scale
            functional.dropout(changed, 0.5, inplace=True)
            return kept, changed

    def loss(outputs: tuple[torch.Tensor, torch.Tensor], scale: torch.Tensor) -> Any:
        return scale * outputs[0].sum(), list(outputs)

    batch = (torch.ones(1, CHANNELS, 4, 4), torch.ones(()))
    step = dmc.compile(Dropping(), loss=loss, optimizer=dmc.optim.SGD(lr=0.0), example=batch)
    channels, elements = (torch.tensor(output.numpy()).view(CHANNELS, 16) for output in step(*batch)[1])
    assert set(channels.sum(1).tolist()) == {0.0, 32.0}
    assert set(elements.unique().tolist()) == {0.0, 2.0}
    assert not set(elements.sum(1).tolist()) <= {0.0, 32.0}


def test_randomness_without_a_rule_is_refused() -> None:
    class Counting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.poisson(x.detach().exp())

    model = nn.Sequential(nn.Linear(3, 2), Counting())
    batch = (torch.ones(4, 3), torch.ones(4, 2))
    with pytest.raises(dmc.errors.ImportFailure, match="draws random numbers"):
        dmc.compile(model, loss=functional.mse_loss, optimizer=dmc.optim.SGD(lr=0.1), example=batch)
