"""What torch-mlir cannot import was reported by its own error."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1], (), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = x0.unfold(0, 2, 1)
        v6 = v4.clone().as_strided((2, 2), (1, 1))
        loss = weighed(self.p0)
        return loss, [v6]


INPUTS = (plain([1, 1, 1, 1], (2, 2), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
