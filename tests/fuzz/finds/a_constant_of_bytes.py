"""A constant of bytes: torch-mlir folds it to signed numbers, which its own verifier then refuses."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0, 0, 0, 0, 0], (2, 4), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v10 = torch.full_like(x1, 1)
        v11 = v10.expand((2, 4))
        loss = weighed(self.p0)
        return loss, [v10, v11]


INPUTS = (plain([1, 1, 1, 1, 1, 1, 1, 1], (2, 4), torch.uint8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
