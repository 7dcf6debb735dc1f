"""An output that is the input itself, beside one computed in its place: IREE copies it after that."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v8 = x0**2
        v12 = x0 | x0
        loss = weighed(self.p0)
        return loss, [v8, v12]


INPUTS = (plain([1, 1, 2, 1, 2, 1, 2, 2], (2, 1, 2, 2), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
