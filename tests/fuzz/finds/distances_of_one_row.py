"""Distances between the rows of one row: none, and their gradient is zero, not absent."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0], (), torch.float32))
        self.p1 = nn.Parameter(plain([1], (1, 1), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = nn.functional.pdist(self.p1)
        v9 = v5.sum(-1, dtype=torch.float32)
        loss = weighed(self.p0) + weighed(v9)
        return loss, []


INPUTS = (plain([1], (1,), torch.float32),)
OPTIMIZER = dmc.optim.Adam(lr=0.125, betas=(0.5, 0.75), eps=0.125, weight_decay=0.25)
