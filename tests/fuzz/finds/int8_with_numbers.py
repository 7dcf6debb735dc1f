"""Arithmetic of int8 with a number ended the process."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = x0 * -3
        v1 = x0 - 3
        v2 = x0 % -3
        v3 = x0 // 3
        v4 = x0 | 1
        v5 = 3 - x0
        v6 = 5 * x0
        loss = weighed(self.p0)
        return loss, [v0, v1, v2, v3, v4, v5, v6]


INPUTS = (plain([-128, 127, -7, 5], (4,), torch.int8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
