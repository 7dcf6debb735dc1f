"""Infinities that were added at computed places, also by the gradient of an index, became NaN at every place."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.0, 0.0, 4.0, 1.0, 9.0, 0.0, 0.25, 1.0], (4, 2), torch.float32))
        self.p1 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.bfloat16))

    def forward(self, x0: Tensor, x1: Tensor, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = self.p0.index_put((x1,), x0, accumulate=True)
        v1 = torch.sqrt(self.p0[x1])
        v2 = self.p1[x1] / x2
        loss = weighed(v0) + weighed(v1) + weighed(v2)
        return loss, [v0, v1, v2]


INPUTS = (
    plain([float("inf"), 1.0, 2.0, float("-inf"), float("-inf"), float("nan")], (3, 2), torch.float32),
    plain([1, 1, 2], (3,), torch.int64),
    plain([0.0, 1.0, -0.0], (3,), torch.bfloat16),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
