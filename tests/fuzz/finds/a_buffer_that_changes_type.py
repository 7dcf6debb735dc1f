"""A buffer of integers becomes one of floats, and eager raises TypeError in the second step: nothing to compare."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (4, 4), torch.float32))
        self.register_buffer("b0", plain([0, 0, 0, 0], (4,), torch.int64))

    def forward(self, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v8 = ~self.b0
        with torch.no_grad():
            self.b0 = self.b0 * 0.5 + v8
        loss = weighed(self.p0)
        return loss, []


INPUTS = (
    plain(
        [False, True, True, False, False, True, False, True, False, True, False, True, False, False, True, False],
        (4, 4),
        torch.bool,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
