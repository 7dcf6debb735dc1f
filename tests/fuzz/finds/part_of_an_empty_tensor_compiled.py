"""The kernel of a part of an empty tensor, as in circular padding, wrote nothing, which is refused."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25, 1.5, -0.5], (2, 3), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = nn.functional.pad((self.p0 + x0)[None], (1, 1, 2, 1), mode="circular")
        v1 = torch.empty(2, 5)
        v1[:, 1:3] = self.p0[:, 1:]
        v3 = x0.new_empty(4, dtype=torch.int64)
        v3[:2] = 3
        v2 = torch.empty_like(x0)
        v2[0] = 2.0
        loss = weighed(v0) + weighed(v1[:, 1:3])
        return loss, [v0, v3[:2], v2[0]]


INPUTS = (plain([1.0, -2.0, 3.0, 4.0, 5.0, -6.0], (2, 3), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
