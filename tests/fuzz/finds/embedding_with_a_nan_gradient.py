"""A NaN in the gradient of one row of an embedding reached all others."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (4, 3), torch.float32))
        self.p1 = nn.Parameter(
            plain([-1.5, 0.5, 2.0, 0.5, -1.0, -0.5, 1.0, 2.0, float("nan"), -1.0, -3.0, 0.0], (4, 3), torch.float32)
        )

    def forward(self, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = nn.functional.embedding(x2, self.p1)
        v9 = nn.functional.cross_entropy(v7, x2)
        loss = weighed(self.p0) + weighed(v9)
        return loss, []


INPUTS = (plain([2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 1, 2], (4, 3), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
