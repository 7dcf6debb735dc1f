"""The square of a large gradient was infinite before it was scaled, and Adam then stood still."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(
            plain(
                [
                    -1.0,
                    0.0,
                    -0.5,
                    -1.5,
                    2.0,
                    0.0,
                    2.0,
                    -0.5,
                    0.0,
                    -0.5,
                    -3.0,
                    -1.0,
                    -1.0,
                    -1.5,
                    -2.0,
                    0.25,
                    -1.0,
                    1.5,
                    -1.0,
                    -2.0,
                    -2.0,
                    2.0,
                    1.0,
                    4.0,
                    -3.0,
                    -0.5,
                    -2.0,
                ],
                (3, 3, 3),
                torch.float32,
            )
        )

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v3 = nn.functional.bilinear(x1, self.p0, x1)
        v4 = nn.functional.poisson_nll_loss(v3, x1)
        loss = weighed(self.p0) + weighed(v4)
        return loss, []


INPUTS = (
    plain(
        [
            -1.0,
            1.0,
            0.0,
            0.5,
            -0.5,
            1.0,
            4.0,
            1.5,
            1.0,
            -1.0,
            2.0,
            1.0,
            -2.0,
            0.5,
            -3.0,
            0.0,
            1.5,
            -0.5,
            4.0,
            0.5,
            1.0,
            2.0,
            -1.5,
            -2.0,
            -1.0,
            0.25,
            -1.5,
        ],
        (3, 3, 3),
        torch.float32,
    ),
)
OPTIMIZER = dmc.optim.AdamW(lr=0.125, eps=0.125, weight_decay=0.25)
