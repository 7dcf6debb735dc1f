"""`reshape` copies what overlaps itself: what is written into the copy is not written into the original."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (4, 4), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = x0.clone().as_strided((2, 2), (1, 1))
        v4.reshape(-1)[:1].mul_(-1.0)
        loss = weighed(self.p0)
        return loss, [v4]


INPUTS = (plain([1, 1, 1, 1], (4,), torch.float16),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
