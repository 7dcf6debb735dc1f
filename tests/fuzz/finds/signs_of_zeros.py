"""Zeros that are rounded, bounded or left over by a division have the signs that eager gives them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0], (2,), torch.float32))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
        quotients = [torch.div(x, y, rounding_mode="floor"), x // y, torch.floor_divide(y, x)]
        remainders = [torch.fmod(x, y), torch.fmod(x, 2.0), torch.remainder(x, y)]
        rounded = [x.trunc(), x.frac(), x.round(), x.ceil()]
        bounded = [x.relu(), x.clamp(0.0, 1.0), torch.fmax(x, -x), torch.fmin(-x, x)]
        # Only its reciprocal tells the sign of a zero.
        outputs = [1.0 / each for each in (*quotients, *remainders, *rounded, *bounded)]
        return weighed(self.p0), outputs


INPUTS = (
    plain([-0.0, 0.0, -0.5, 0.25, -4.0, 4.0, 3.0], (7,), torch.float32),
    plain([2.0, -2.0, -2.0, 4.0, 2.0, -2.0, float("inf")], (7,), torch.float32),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
