"""The gradient of a power by an integer of eight bits, which computes with that, ended the process."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, transposed, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1], (2,), torch.float32))
        self.p2 = nn.Parameter(plain([1, 1, 1, 1], (4,), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v8 = self.p2**x0
        v9 = torch.take_along_dim(v8, x1, -1)
        loss = weighed(self.p0) + weighed(v9)
        return loss, []


INPUTS = (
    plain([1, 1, 1, 1], (4,), torch.int8),
    transposed([0, 5, 8, 3], (4,), torch.int64),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
