"""Seed 450004397, interpreter: differs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (2, 4, 2), torch.float32))
        self.p1 = nn.Parameter(plain([0.5, 1.5, -3.0, 0.0, 1.5, 4.0, 1.0, 2.0], (2, 4), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = nn.functional.kl_div(self.p1.log_softmax(-1), self.p1.softmax(-1), reduction="batchmean")
        v6 = torch.div(v5, v5, rounding_mode="floor")
        loss = weighed(self.p0)
        return loss, [v6]


INPUTS = (plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (2, 4, 2), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
