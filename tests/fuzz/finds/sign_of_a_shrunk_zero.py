"""A number that softshrink makes zero kept its sign, and its reciprocal was infinite on the other side."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1] * 4, (2, 2), torch.float32))
        # Enough for eager's vectors: in the rest of a tensor it keeps the sign.
        self.p1 = nn.Parameter(plain([-0.5, 0.25, -2.0, 4.0] * 16, (4, 16), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = nn.functional.softshrink(self.p1.detach(), 0.5)
        return weighed(self.p0), [v5**-1.0]


INPUTS = (plain([1.0], (1,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
