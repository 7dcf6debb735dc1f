"""The gradient of a power by an integer of 8 bits lowered the exponent beyond its type; eager's -128 - 1 is 127."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.0, 1.0, 1.5, 0.5, 1.0, -1.0], (2, 3), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        loss = weighed(self.p0**x0) + weighed(self.p0**x1)
        return loss, []


INPUTS = (
    plain([-128, 5, 0, -2, 127, -3], (2, 3), torch.int8),
    plain([0, 1, 3], (3,), torch.uint8),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
