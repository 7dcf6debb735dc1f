"""The sum of what is normalised is rounding: its logarithm, and so every gradient, may be finite or not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        numbers = [0.5, 1.0, -1.0, -3.0, -2.0, -3.0, 0.25, 1.5, 0.5, -1.5, 1.5, 2.0, 4.0, -1.0, 0.25, 1.0]
        self.p2 = nn.Parameter(plain(numbers, (4, 4), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = nn.functional.group_norm(self.p2, 1)
        v7 = v6.cumsum(1)
        v11 = torch.log2(v7)
        loss = weighed(v11 + x0)
        return loss, []


INPUTS = (plain([1], (1,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
