"""A false alarm: bytes above 127 beside a trigamma whose rounding is enlarged."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.5, 0.0, -3.0, 2.0, 0.25, 1.5, -0.5, 1.5], (2, 4), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v3 = torch.digamma(self.p0)
        with torch.no_grad():
            v4 = x1.transpose(2, -2)
        loss = weighed(self.p0) + weighed(v3)
        return loss, [v4]


INPUTS = (plain([200, 7, 3, 7, 0, 128, 3, 255, 7, 7, 0, 200, 3, 1, 200, 2], (4, 2, 2), torch.uint8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
