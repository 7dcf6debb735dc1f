"""The first power of a number is the number itself, also where the exponent is a tensor."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1] * 36, (3, 3, 2, 2), torch.float32))
        self.p2 = nn.Parameter(plain([0] * 36, (3, 3, 2, 2), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = nn.functional.conv2d(self.p2, self.p0.nan_to_num(0.0, 4.0, -4.0), stride=2, padding=1)
        v5 = self.p2**x0
        v6 = self.p2 < v5
        loss = weighed(self.p0) + weighed(v4)
        return loss, [v6]


INPUTS = (plain([1] * 36, (3, 3, 2, 2), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
