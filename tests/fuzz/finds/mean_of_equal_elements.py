"""A false alarm: a mean of equal elements that is rounded, which a normalisation and a second step enlarge."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, transposed, weighed

# fmt: off
VALUES_0 = [
    -1.5, 0.0, 0.25, 0.0, -3.0, 1.5, -3.0, 0.5, 4.0, -2.0, -0.5, 1.0, 1.5, -2.0, -0.5, -1.5, -3.0, 1.5, 0.0, -0.5,
    -0.5, -1.0, -3.0, 1.5, 0.0, -1.5, 0.25, -2.0, -2.0, -1.5, 0.25, 0.0, 0.5, 0.25, 1.5, 4.0, 0.0, -2.0, 4.0, 4.0,
    -1.5, 2.0, 4.0, -2.0, -1.0, 0.25, -0.5, 0.5, -3.0, 1.5, -2.0, 1.0, 2.0, -2.0, 1.5, -1.5, 4.0, 2.0, 0.25, -1.5,
    -3.0, -2.0, 1.0, 2.0, -0.5, 2.0, 4.0, 0.0, 0.0, 1.0, 0.5, -3.0, 2.0, 0.25, -3.0, 0.5, 2.0, 4.0, -1.0, -3.0, 1.0,
    -1.0, 0.5, -0.5, 0.0, 0.5, 0.25, 2.0, 0.5, 0.25, 2.0, 4.0, -2.0, -1.5, 2.0, 0.5, 0.0, 0.25, 2.0, 2.0, 0.5, -1.5,
    4.0, 0.5, 0.25, -1.5, 2.0, -1.5, 4.0, 4.0, 0.0, 4.0, 0.25, 2.0, 2.0, 0.25, 2.0, -1.0, 0.0, 0.5, -1.5, -1.0, 1.5,
    1.0, 1.5, -2.0, -0.5, 2.0,
]
VALUES_1 = [
    1.5, 0.25, 0.25, -2.0, 0.5, 1.0, -1.5, -3.0, -3.0, 0.0, -1.0, 0.25, 1.5, 2.0, 1.5, -1.5, 0.25, 0.5, -1.5, 2.0,
    -1.0, 0.5, 0.5, 4.0, 0.0, -2.0, -1.0, -1.5, 0.5, 0.0, 2.0, -0.5, -3.0, 2.0, 0.0, 1.5, -1.0, 0.5, 1.5, -1.0,
    -0.5, -3.0, 4.0, 1.5, -1.5, 4.0, 0.25, 2.0, -2.0, -3.0, -3.0, -0.5, 1.0, -2.0, 1.0, -1.5, -1.5, -1.0, -1.0, 0.0,
    -1.5, 0.25, 2.0, 2.0, -0.5, 2.0, 4.0, 0.0, 4.0, 1.5, -3.0, -2.0, 0.5, 2.0, -1.0, -1.5, 0.25, 0.25, 2.0, 1.0,
    1.5, -1.5, 2.0, 1.0, 2.0, -3.0, 0.5, 2.0, 0.5, -1.5, -1.5, 0.5, -2.0, 2.0, 4.0, 0.5, -1.0, -2.0, -0.5, -0.5,
    0.5, -1.0, 0.25, -3.0, -3.0, 0.5, 0.25, -3.0, -0.5, 0.0, -2.0, 1.0, 1.0, -1.5, 2.0, 2.0, 4.0, 1.0, -1.0, -3.0,
    2.0, -3.0, -2.0, 1.0, -1.0, -1.0, 0.25, 0.0,
]
# fmt: on


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0], (), torch.float32))
        self.p1 = nn.Parameter(
            plain(
                VALUES_0,
                (2, 4, 4, 4),
                torch.float32,
            )
        )

    def forward(self, x0: Tensor, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = nn.functional.conv2d(self.p1, x2.nan_to_num(0.0, 4.0, -4.0))
        v7 = nn.functional.interpolate(v6, size=(3, 5))
        v8 = nn.functional.instance_norm(v7)
        v8.diagonal().fill_(1.5)
        v9 = nn.functional.conv2d(v8, v7.nan_to_num(0.0, 4.0, -4.0), stride=2, padding=1)
        loss = weighed(self.p0) + weighed(v7) + weighed(v9)
        return loss, []


INPUTS = (
    transposed([-1.5, 2.0, -1.5, 2.0], (4,), torch.float16),
    transposed(
        VALUES_1,
        (2, 4, 4, 4),
        torch.float32,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
