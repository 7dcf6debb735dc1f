"""The exponential of infinity less infinity was -inf: its last product was fused with the difference."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0] * 4, (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = nn.functional.poisson_nll_loss(x0, x0)
        loss = weighed(self.p0)
        return loss, [v5]


INPUTS = (plain([-2.0, -1.0, 0.25, -2.0, -2.0, float("inf"), 1.5, 1.0], (2, 1, 2, 2), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
