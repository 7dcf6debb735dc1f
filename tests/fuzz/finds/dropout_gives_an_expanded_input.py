"""Dropout without training gives its operand, whose rows were one in memory, and a write went to each of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import broadcast, plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0, 0, 0, 0, 0, 0], (3, 3), torch.float32))

    def forward(self, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = nn.functional.dropout(x2, 0.5, training=False)
        v7.diagonal().fill_(1.0)
        loss = weighed(self.p0)
        return loss, [v7]


INPUTS = (broadcast([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (4, 3), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
