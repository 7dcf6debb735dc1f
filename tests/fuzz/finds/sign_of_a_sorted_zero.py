"""Sorting lost the signs of zeros."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1], (2, 1, 2, 2), torch.float32))

    def forward(self, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5, _ = torch.sort(x2, dim=2, stable=True)
        v7 = x2 / v5
        loss = weighed(self.p0)
        return loss, [v7]


INPUTS = (
    plain(
        [
            float("inf"),
            -3.0,
            2.0,
            0.0,
            float("-inf"),
            -1.5,
            -2.0,
            float("nan"),
            -3.0,
            -3.0,
            0.0,
            0.25,
            0.25,
            -1.5,
            float("nan"),
            -0.0,
            -0.5,
            -1.0,
            1.0,
            -0.0,
            -1.5,
            2.0,
            1.5,
            1.0,
            1.0,
            -3.0,
            0.5,
            1.0,
            0.5,
            1.5,
            0.0,
            2.0,
            0.5,
            -1.0,
            1.0,
            0.0,
        ],
        (2, 2, 3, 3),
        torch.bfloat16,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
