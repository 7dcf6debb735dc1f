"""The softmax of a tensor without dimensions did not end, and what else goes along a dimension was refused."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([2.0], (), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = self.p0.softmax(-1)
        v1 = self.p0.log_softmax(0)
        v2 = self.p0.logsumexp(0)
        v3 = self.p0.amax(-1)
        v4 = self.p0.amin(())
        v5 = self.p0.prod(0)
        number = x0.sum()
        loss = weighed(self.p0) + v0 + v1 + v2 + v3 + v4 + v5
        return loss, [number.softmax(0), number.any(-1), number.all(0), number.max(0)[0]]


INPUTS = (plain([1.0, float("nan")], (2,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
