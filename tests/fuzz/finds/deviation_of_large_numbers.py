"""The squares of a standard deviation overflowed, where eager's, of f64, do not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0] * 4, (4,), torch.float32))
        self.p1 = nn.Parameter(plain([1.5, -0.5, -3.0, 2.0], (4,), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = x1**self.p1
        v8 = v6.nan_to_num(0.5, 5.0, -5.0)
        v9 = torch.cosh(v8)
        v13 = v9.std(-3)
        loss = weighed(self.p0) + weighed(v13)
        return loss, []


INPUTS = (
    plain(
        [
            0.0,
            1.5,
            4.0,
            0.0,
            1.0,
            -0.5,
            -1.0,
            -0.5,
            4.0,
            -2.0,
            -2.0,
            1.5,
            -0.5,
            -1.0,
            -2.0,
            4.0,
            1.5,
            2.0,
            -2.0,
            0.25,
            0.25,
            1.5,
            -1.5,
            2.0,
            -0.5,
            -1.5,
            1.5,
            -0.5,
            -1.5,
            -1.0,
            2.0,
            -0.5,
            -3.0,
            -1.5,
            0.0,
            0.0,
            -3.0,
            -1.5,
            -1.0,
            -0.5,
            0.25,
            0.5,
            -2.0,
            1.5,
            -3.0,
            -0.5,
            0.5,
            1.0,
            4.0,
            0.25,
            2.0,
            1.5,
            1.5,
            1.0,
            0.25,
            0.0,
            0.25,
            1.5,
            0.25,
            -0.5,
            0.0,
            1.0,
            -0.5,
            1.5,
        ],
        (4, 4, 4),
        torch.float32,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
