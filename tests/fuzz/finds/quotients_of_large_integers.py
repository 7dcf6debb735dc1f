"""Integers were divided as numbers of 64 bits, which are exact up to 2⁵³ only."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.0, 2.0], (2,), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        floors = [x0 // 3, x0 // -7, x0 // x1, (-x0) // x1, 7 // x1, torch.div(x0, x1, rounding_mode="floor")]
        rest = [x0 % x1, torch.fmod(x0, x1), torch.fmod(x0, 11), torch.div(x0, x1, rounding_mode="trunc")]
        loss = weighed(self.p0)
        return loss, [*floors, *rest]


INPUTS = (
    plain([2**60 + 1, -(2**60) - 5, 2**53 + 1, 7, -9, 0, 2**62 - 1], (7,), torch.int64),
    plain([3, 2**40 + 1, -7, 2, 5, -4, -(2**55) - 1], (7,), torch.int64),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
