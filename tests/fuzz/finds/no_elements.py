"""A tensor without elements ended the process."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([], (4, 0), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        loss = weighed(self.p0) + weighed(x0)
        return loss, []


INPUTS = (plain([1.0, 2.0], (2,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
