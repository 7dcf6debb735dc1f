"""Roundings of narrow numbers that cancel: eager happens to have none, the compiled step has some."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b1: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (4, 4), torch.float32))
        self.register_buffer("b1", plain([-1.0, 2.0, -0.5], (3,), torch.bfloat16))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = nn.functional.kl_div(self.b1.log_softmax(-1), self.b1.softmax(-1), reduction="batchmean")
        loss = weighed(self.p0)
        return loss, [v7]


INPUTS = (plain([1, 1, 1, 1], (4,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
