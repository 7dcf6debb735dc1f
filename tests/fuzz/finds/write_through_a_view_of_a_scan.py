"""What decomposes along another dimension lies in memory as in eager: a view of it is written."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1], (3,), torch.float32))
        self.p1 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 3), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        [v8, _v9] = self.p1.cummin(-2)
        v8.reshape(-1)[..., :2].mul_(-1.0)
        loss = weighed(self.p0) + weighed(v8)
        return loss, []


INPUTS = (plain([1, 1, 1, 1], (4,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
