"""Rows of attention that are equal: gradients of narrow scores that cancel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.train import Mode
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b1: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 2, 3), torch.float32))
        self.register_buffer("b1", plain([0, 0, 0], (3,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = nn.functional.conv1d(self.p0, self.p0.nan_to_num(0.0, 4.0, -4.0), self.b1, padding=1)
        v6 = nn.functional.scaled_dot_product_attention(
            v4.nan_to_num(0.0, 4.0, -4.0), v4.nan_to_num(0.0, 4.0, -4.0), v4.nan_to_num(0.0, 4.0, -4.0)
        )
        loss = weighed(self.p0) + weighed(v6)
        return loss, []


INPUTS = (plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 2, 3), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
MODE = Mode(precision="bf16-mixed")
