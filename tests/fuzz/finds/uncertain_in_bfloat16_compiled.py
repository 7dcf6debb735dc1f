"""Verification refused what rounding in bfloat16 leaves uncertain, of an input that is of that type."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 3), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = nn.functional.kl_div(x0.log_softmax(-1), x0.softmax(-1), reduction="batchmean")
        loss = weighed(self.p0)
        return loss, [v4]


INPUTS = (plain([0.5, 0.5, -2.0, 4.0, -2.0, 2.0, 1.5, 1.0, -1.5, -0.5, -1.5, -3.0], (4, 3), torch.bfloat16),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
