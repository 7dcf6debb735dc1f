"""Seed 450000392, compiled: crashes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.train import Mode
from tests.fuzz.values import broadcast, plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0], (4,), torch.float32))
        self.p1 = nn.Parameter(plain([2.0, 0.0, -2.0, -3.0, 1.5, 0.5, 0.25, 1.0, 0.0], (3, 3), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = self.p1.sum(0, dtype=torch.float32)
        v6 = nn.functional.prelu(self.p1, v5)
        v8 = nn.functional.binary_cross_entropy(v6.sigmoid(), v6.sigmoid())
        loss = weighed(self.p0) + weighed(v5)
        return loss, [v8]


INPUTS = (broadcast([3, 7, 128, 1, 0, 128, 1, 3, 128], (3, 3), torch.uint8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
MODE = Mode(precision="bf16-mixed", accumulate=1, ranks=1)
