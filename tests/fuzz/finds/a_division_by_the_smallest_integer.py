"""Divided by the smallest integer, toward zero: the interpreter took absolute values, which overflow."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1], (1, 2), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = torch.div(x1, x0, rounding_mode="trunc")
        loss = weighed(self.p0)
        return loss, [v6]


INPUTS = (
    plain([1, 2147483647, -2147483648, 2, -3, -2147483648, 2, -1], (2, 2, 2), torch.int32),
    plain([1, 1], (1, 2), torch.int8),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
