"""The negative of an integer went through a float."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = -x0
        v1 = -x1
        loss = weighed(self.p0)
        return loss, [v0, v1]


INPUTS = (
    plain([16777217, -16777219, 2147483647], (3,), torch.int32),
    plain([9007199254740993], (1,), torch.int64),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
