"""Cross entropy times infinity: the gradient of the target is NaN, since eager subtracts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([-2.0, 0.0, -2.0, 1.0], (2, 2), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v8 = nn.functional.cross_entropy(self.p0, x1)
        v12 = v8 * float("inf")
        loss = weighed(self.p0) + weighed(v12)
        return loss, []


INPUTS = (plain([1, 1], (2,), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
