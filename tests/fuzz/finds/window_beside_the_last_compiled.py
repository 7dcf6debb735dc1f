"""Elements beside the last window of a pooling, or of a convolution with a constant, fell into it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = nn.functional.max_pool1d(x0[0], 2)
        v1 = nn.functional.avg_pool1d(x0[0], 2)
        v2 = nn.functional.avg_pool2d(x0, 2)
        v3 = nn.functional.max_pool3d(x0[None], 2)
        v4 = nn.functional.conv2d(x0, torch.full((1, 3, 2, 2), 1.0, dtype=torch.float32), stride=2)
        loss = weighed(self.p0)
        return loss, [v0, v1, v2, v3, v4]


INPUTS = (
    plain(
        [
            1.0,
            2.0,
            3.0,
            4.0,
            5.0,
            6.0,
            7.0,
            8.0,
            9.0,
            10.0,
            11.0,
            12.0,
            13.0,
            14.0,
            15.0,
            16.0,
            17.0,
            18.0,
            19.0,
            20.0,
            21.0,
            22.0,
            23.0,
            24.0,
            25.0,
            26.0,
            27.0,
        ],
        (1, 3, 3, 3),
        torch.float32,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
