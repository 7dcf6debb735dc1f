"""A matrix product over a dimension of size zero."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([], (0, 4), torch.float32))
        self.p1 = nn.Parameter(plain([], (2, 0), torch.float32))
        self.p2 = nn.Parameter(plain([], (0, 4), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = self.p1 @ self.p2
        loss = weighed(self.p0)
        return loss, [v4]


INPUTS = (plain([1], (), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
