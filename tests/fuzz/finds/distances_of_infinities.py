"""Infinity minus itself has no sign, and a distance no slope there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (3, 2, 3), torch.float32))
        self.p1 = nn.Parameter(
            plain(
                [
                    -2.0,
                    -0.5,
                    float("-inf"),
                    -1.0,
                    0.5,
                    0.25,
                    0.25,
                    2.0,
                    1.0,
                    -2.0,
                    0.25,
                    2.0,
                    1.0,
                    0.0,
                    2.0,
                    1.0,
                    -0.0,
                    -1.0,
                    0.0,
                    float("inf"),
                    -2.0,
                    0.25,
                    float("-inf"),
                    -2.0,
                ],
                (2, 2, 6),
                torch.float32,
            )
        )

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = torch.cdist(self.p1, self.p1, 1.0)
        loss = weighed(self.p0) + weighed(v7)
        return loss, []


INPUTS = (
    plain(
        [
            True,
            True,
            True,
            False,
            True,
            True,
            True,
            True,
            False,
            True,
            False,
            False,
            True,
            False,
            False,
            True,
            True,
            False,
        ],
        (3, 2, 3),
        torch.bool,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
