"""A tensor that is read inside a region of another mode, and by an operation outside whose result nobody reads."""

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
        v0 = x0.to(torch.bfloat16)
        v0.isinf()
        with torch.no_grad():
            nn.functional.hardshrink(v0.nan_to_num(0.0), 0.5)
        return weighed(self.p0), []


INPUTS = (plain([1.0, 2.0], (2,), torch.bfloat16),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
