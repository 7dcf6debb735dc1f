"""A false alarm: eager adds up a mean in float64, which leaves of terms that cancel what is not zero."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed

# fmt: off
VALUES_0 = [
    -1.5, 0.5, -1.5, -1.5, -2.0, 0.5, 0.0, 1.0, 2.0, 1.0, 0.25, -1.0, -0.5, 1.0, -1.0, 1.0, 0.5, 0.25, 0.0, 0.25,
    0.25, -1.5, 4.0, -3.0, -1.5, -3.0, 4.0, -0.5, 0.5, 2.0, -2.0, 4.0, 4.0, 1.0, -1.0, -1.5, 0.5, 0.5, -0.5, -0.5,
    1.5, 0.5, 4.0, 0.5, 4.0, 1.0, 0.0, -3.0, -0.5, 1.5, -1.5, 1.5, 0.5, -1.0, 4.0, -3.0, 0.0, 1.5, 1.0, 2.0, 2.0,
    -3.0, 0.25, 0.5, -2.0, 0.5, 2.0, 0.5, 1.0, 1.5, 0.25, 1.0, -0.5, 0.0, -1.5, 0.5, 0.0, -1.0, 1.0, 2.0, 0.0, -1.5,
    4.0, 0.5, 0.25, -1.0, 1.5, 0.0, -0.5, -3.0, -3.0, -0.5, -1.0, 0.5, 0.25, 0.0, 1.0, -2.0, 4.0, 0.25, -2.0, -1.5,
    0.0, -1.0, 0.25, 0.25, -1.5, 1.5, 0.25, 0.5, 0.0, 2.0, 0.0, 1.0, -3.0, 0.25, -1.5, -1.0, 0.25, 1.5, 0.5, -1.0,
    -2.0, 4.0, 0.0,
]
VALUES_1 = [
    True, True, True, True, False, False, False, False, False, False, False, True, True, True, False, False, False,
    False, True, True, True, True, True, False, True, True, False, False, False, True, True, True, True, False,
    False, False, True, False, True, True, True, False, True, True, False, False, False, False, True, True, True,
    False, True, False, True, True, True, True, False, False, False, True, False, True, False, False, False, True,
    True, False, True, False, False, False, True, False, True, True, True, True, False, False, True, False, True,
    True, False, True, False, False, True, False, True, False, False, False, True, False, False, False, False, True,
    True, False, False, True, False, True, True, False, True, True, True, True, False, True, False, False, True,
    False, True, False, False, False, True,
]
# fmt: on


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(
            plain(
                VALUES_0,
                (5, 5, 5),
                torch.float32,
            )
        )

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        [_, v6] = torch.var_mean(self.p0.nan_to_num(0.0, 4.0, -4.0), -3)
        v11 = torch.div(v6, v6, rounding_mode="trunc")
        loss = weighed(self.p0)
        return loss, [v11]


INPUTS = (
    plain(
        VALUES_1,
        (5, 5, 5),
        torch.bool,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
