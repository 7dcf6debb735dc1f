"""The magnitude of -128 does not fit an int8."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.0, 2.5], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = torch.fmod(self.p0, x0)
        return weighed(self.p0), [v0.detach()]


INPUTS = (plain([-128, 2], (2,), torch.int8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
