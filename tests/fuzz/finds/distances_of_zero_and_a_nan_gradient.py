"""Distances of zero end a gradient that is not finite."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (4, 3), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = torch.cdist(self.p0, self.p0)
        v8 = torch.xlogy(v4, v4)
        loss = weighed(self.p0) + weighed(v8)
        return loss, []


INPUTS = (plain([True, False, True, False, True, True, False, False, False, False, True, False], (4, 3), torch.bool),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
