"""The mean of a window of negative zeros was -0; eager adds to 0."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = nn.functional.avg_pool1d(x0[0], 2)
        v1 = nn.functional.avg_pool2d(x0, (1, 2))
        v2 = nn.functional.adaptive_avg_pool1d(x0[0], 2)
        loss = weighed(self.p0)
        return loss, [1 / v0, 1 / v1, 1 / v2]


INPUTS = (plain([-0.0, -0.0, -0.0, 0.0], (1, 1, 4), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
