"""A product of three took its factors in another order: NaN for infinity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = x0.select(-1, 1)
        v7 = nn.functional.bilinear(v5, v5, v5)
        loss = weighed(self.p0)
        return loss, [v7]


INPUTS = (
    plain(
        [
            float("inf"),
            float("-inf"),
            0.0,
            2.0,
            -2.0,
            -1.5,
            float("-inf"),
            0.25,
            0.0,
            -0.0,
            -0.0,
            float("inf"),
            2.0,
            float("nan"),
            -1.5,
            -0.5,
        ],
        (2, 2, 2, 2),
        torch.float32,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
