"""Dropout that is off gives its operand itself, wherever that lies in memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, spread, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0], (), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = (x0 + 1.0)[:, :2]
        v7 = nn.functional.dropout(v4, 0.5, training=False)
        v7.div_(3.0)
        loss = weighed(self.p0)
        return loss, [v4]


INPUTS = (spread([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 4), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
