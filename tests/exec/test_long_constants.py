"""A constant of many operations, each of which reads others twice, is not made again for every reader inside of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dmc

LEVELS = 12


class Waves(nn.Module):
    """A table that a chain of sines and cosines computes: written out for each reader it has 2^LEVELS operations."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        """[B, 8] → the loss."""
        table = torch.arange(8).float()
        for _ in range(LEVELS):
            table = 0.5 * (table.sin().flip(0) - table.cos())
        return (x * self.weight * table).square().mean()


def test_it_compiles_and_is_eagers() -> None:
    model, x = Waves(), torch.linspace(-1.0, 1.0, 24).view(3, 8)
    step = dmc.compile(model, optimizer=dmc.optim.SGD(lr=0.1), example=(x,), verify=False)
    assert float(step(x)) == pytest.approx(float(model(x)), rel=1e-4)
    step.close()
