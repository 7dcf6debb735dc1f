"""The slope of digamma at minus infinity is NaN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0], (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v2 = torch.digamma(self.p0)
        loss = weighed(self.p0) + weighed(v2)
        return loss, []


INPUTS = (plain([1, 1, 1, 1], (4,), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
