"""The rectifier keeps minus zero, as a reciprocal shows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0], (3,), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = torch.relu(x1)
        v6 = torch.reciprocal(v5)
        loss = weighed(self.p0)
        return loss, [v6]


INPUTS = (
    plain(
        [float("-inf"), -3.0, -0.0, -0.5, 1.0, float("-inf"), float("-inf"), 1.5, 4.0, 0.5, 2.0, float("inf")],
        (4, 3),
        torch.float32,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
