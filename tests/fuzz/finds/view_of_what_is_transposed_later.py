"""A view was written after its base had been transposed in place: the gradient looked for it in the new shape."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 3), torch.float32))
        self.p1 = nn.Parameter(plain([0, 0, 0, 0, 0, 0, 0, 0, 0], (3, 3), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = torch.eye(3)[:1] * self.p1
        v6 = v5.select(1, 0)
        v5.transpose_(0, 1)
        v6.zero_()
        loss = weighed(self.p0) + weighed(v5)
        return loss, []


INPUTS = (plain([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (4, 3), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
