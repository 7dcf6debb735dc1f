"""Cross entropy with label smoothing, whose own gradient is infinite."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.0] * 8, (4, 2), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        loss = nn.functional.cross_entropy(self.p0, x0, label_smoothing=0.25)
        return weighed(self.p0) + weighed(loss / x0), []


INPUTS = (plain([0, 0, 1, -100], (4,), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
