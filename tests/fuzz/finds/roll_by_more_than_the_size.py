"""A roll by more than the size was one by something else."""

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
        v0 = x0.roll(-5, 1)
        v1 = x0.roll((7, 3), (1, 0))
        v2 = x0.roll(1)
        v3 = self.p0.roll(6, 0)
        loss = weighed(v3)
        return loss, [v0, v1, v2]


INPUTS = (plain([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
