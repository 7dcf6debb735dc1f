"""Constant floats compared with integers gave the opposite."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = torch.ones(2) == 1
        v1 = torch.ones(2) != 1
        v2 = torch.full((2,), 0.5) > 0
        v3 = torch.ones(2) >= 1
        v4 = torch.zeros(2) <= 0
        v5 = torch.ones(2) < 2
        loss = weighed(self.p0)
        return loss, [v0, v1, v2, v3, v4, v5]


INPUTS = (plain([1.0, -2.0, 0.5, 3.0], (4,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
