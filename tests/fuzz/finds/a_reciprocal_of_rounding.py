"""Equal distributions differ by rounding alone in eager, by nothing here: the reciprocal of that is infinite."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rows = [4.0, -2.0, -1.0, 1.5, 4.0, -1.5, 1.0, 0.0, 0.25, -1.0, 1.5, 0.5, 0.5, 1.5, -1.0, 1.0]
        self.p0 = nn.Parameter(plain(rows, (4, 4), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        with torch.no_grad():
            v7 = nn.functional.kl_div(self.p0.log_softmax(-1), self.p0.softmax(-1), reduction="batchmean")
        v8 = torch.reciprocal(v7)
        loss = weighed(self.p0)
        return loss, [v8]


INPUTS = (plain([False], (), torch.bool),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
