"""What is copied into a tensor is a part of it: eager reads elements that it has just written."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0], (2, 2), torch.float32))
        self.register_buffer("b0", plain([-1, 3, -7, 3], (2, 2), torch.int64))

    def forward(self, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        self.b0.copy_(self.b0[:, 0])
        loss = weighed(self.p0)
        return loss, []


INPUTS = (plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 2, 2), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
