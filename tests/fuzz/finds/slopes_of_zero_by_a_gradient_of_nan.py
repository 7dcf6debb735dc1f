"""A gradient that is not finite, of a margin loss whose slopes are zero: eager multiplies, NaN is kept."""

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
        v8 = nn.functional.multi_margin_loss(self.p0, x1)
        v12 = torch.xlogy(v8, v8)
        loss = weighed(self.p0) + weighed(v12)
        return loss, []


INPUTS = (plain([1, 1], (2,), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
