"""A scatter of another type gave that type; one at a negative place wrote nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = torch.select_scatter(x0, x1, 0, -1)
        v1 = torch.slice_scatter(x0, x1.expand(2), 0, 0, 2)
        v2 = torch.cos(self.p0)
        v2[-1] = 0.5
        loss = weighed(v2)
        return loss, [v0, v1]


INPUTS = (
    plain([1, 0, 2], (3,), torch.int64),
    plain([1.5], (), torch.bfloat16),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
