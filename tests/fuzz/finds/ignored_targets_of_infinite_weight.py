"""An ignored target whose class has an infinite weight has a gradient of zero."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b1: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1], (2, 2), torch.float32))
        self.p1 = nn.Parameter(plain([0, 0, 0, 0], (2, 2), torch.bfloat16))
        self.register_buffer("b1", plain([float("-inf"), 4.0], (2,), torch.bfloat16))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = nn.functional.nll_loss(self.p1, x0, weight=self.b1.detach().abs() + 0.5, ignore_index=0)
        loss = weighed(self.p0) + weighed(v7)
        return loss, []


INPUTS = (plain([0, 0], (2,), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
