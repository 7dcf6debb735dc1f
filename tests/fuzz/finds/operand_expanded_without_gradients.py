"""A parameter that operations without gradients expand to what it is, and that is read with gradients afterwards."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        with torch.no_grad():
            nn.functional.l1_loss(self.p0, self.p0)
            nn.functional.huber_loss(self.p0, x0)
        return weighed(self.p0), []


INPUTS = (plain([1.0, 2.0], (2,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
