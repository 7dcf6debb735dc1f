"""A false alarm: in eager a value equal to its mean normalises to a rounding above zero, where buckets begin."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        values = [0.5, -3.0, 0.5, -0.5, 1.0, -1.0, 4.0, 1.5, 4.0, 4.0, 0.0, 1.0]
        self.p0 = nn.Parameter(plain(values, (3, 4), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = nn.functional.layer_norm(self.p0, self.p0.shape[-2:])
        v5 = torch.bucketize(v4, torch.tensor([-1.0, 0.0, 1.5]))
        loss = weighed(self.p0)
        return loss, [v5]


INPUTS = (plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 4), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
