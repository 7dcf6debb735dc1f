"""A first moment is taken as by `lerp`, from its nearer end: of an infinite gradient verification saw a difference."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.0, 0.5], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        loss = weighed(torch.acos(self.p0))
        return loss, []


INPUTS = (plain([1.0], (1,), torch.float32),)
OPTIMIZER = dmc.optim.Adam(lr=0.125, betas=(0.5, 0.75), eps=0.125, weight_decay=0.25)
