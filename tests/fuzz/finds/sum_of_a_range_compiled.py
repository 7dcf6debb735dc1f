"""IREE summed what depends on indices alone, here the gradient of weights that are a range, by its last term."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.train import Mode
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0], (3,), torch.float32))
        self.p1 = nn.Parameter(plain([1, 1], (2,), torch.float32))
        self.p2 = nn.Parameter(plain([0] * 18, (3, 2, 3), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v9 = nn.functional.group_norm(self.p2, 2, self.p1.nan_to_num(0.0, 4.0, -4.0), x1.nan_to_num(0.0, 4.0, -4.0))
        loss = weighed(self.p0) + weighed(v9)
        return loss, []


INPUTS = (plain([0, 0], (2,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
MODE = Mode(precision="bf16-mixed", accumulate=1, ranks=1)
