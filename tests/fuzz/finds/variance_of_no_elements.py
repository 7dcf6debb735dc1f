"""The variance of no elements was zero; of a number along a dimension, which it has none of, the process ended."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([], (2, 0), torch.float32))
        self.p1 = nn.Parameter(plain([1.0, 2.0], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        joined = self.p0 + self.p1.unsqueeze(1)
        v0, v1 = torch.var_mean(joined, -1, keepdim=True)
        v2 = joined.std()
        v3 = joined.var(0)
        v4 = self.p1.var(correction=3)
        v5 = self.p1.sum().var(0, unbiased=False)
        v6 = x0.var(-1, unbiased=False)
        loss = weighed(self.p1) + weighed(v5)
        return loss, [v0, v1, v2, v3, v4, v5, v6, torch.std_mean(joined)[0], x0.sum().std(0)]


INPUTS = (plain([1.0, 2.0], (2, 1), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
