"""A divergence of two equal distributions is rounding alone, and so is its reciprocal, and every step after it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import broadcast, plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 3), torch.float32))
        self.p2 = nn.Parameter(plain([0.0, 1.5], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = nn.functional.kl_div(self.p2.log_softmax(-1), self.p2.softmax(-1), reduction="batchmean")
        v8 = torch.maximum(x0, v7)
        v9 = torch.reciprocal(v8)
        loss = weighed(self.p0) + weighed(v9)
        return loss, []


INPUTS = (broadcast([-2.0, 2.0, -3.0, float("inf"), 0.0, -0.5, 0.0, 4.0, -0.0], (3, 3), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
