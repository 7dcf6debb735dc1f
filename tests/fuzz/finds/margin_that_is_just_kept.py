"""A class that is below the target by just the margin has a gradient of zero."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([2, 2, 2, 2, 2, 2, 2, 2, 1], (3, 3), torch.float32))

    def forward(self, x1: Tensor, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = x1 != self.p0
        v8 = nn.functional.multi_margin_loss(self.p0, x2)
        v9 = v8.masked_fill(v7, float("-inf"))
        loss = weighed(self.p0) + weighed(v9)
        return loss, []


INPUTS = (
    plain([1, 1, 1], (3,), torch.int64),
    plain([1, 1, 0], (3,), torch.int64),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
