"""What has gaps in memory is dense here: `contiguous` copied it in eager, and returned it itself here."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, spread, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0], (1, 1, 2), torch.float32))
        self.register_buffer("b0", spread([0, 0], (2, 1), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = self.b0.contiguous()
        v7.diagonal().fill_(-1.0)
        loss = weighed(self.p0)
        return loss, []


INPUTS = (plain([1, 1], (1, 2), torch.int8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
