"""A choice between a tensor and itself was that tensor, though smaller than the choice: torch-mlir found no end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, spread, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (4, 3), torch.float32))

    def forward(self, x0: Tensor, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = x0.to(torch.bool)
        v7 = torch.where(v6, x2, x2)
        v9 = v7.softmax(1)
        loss = weighed(self.p0)
        return loss, [v9]


INPUTS = (
    plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (4, 3), torch.uint8),
    spread([0.5, -3.0, 2.0], (3,), torch.float32),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
