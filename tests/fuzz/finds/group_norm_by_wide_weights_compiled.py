"""A group normalisation of narrow numbers by wide weights keeps its mean and deviation wide."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1], (3,), torch.float32))
        self.p1 = nn.Parameter(plain([0, 0, 0, 0], (4,), torch.float32))
        self.register_buffer(
            "b0",
            plain([2, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2], (2, 4, 3), torch.bfloat16),
        )

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = nn.functional.group_norm(
            self.b0, 2, self.p1.nan_to_num(0.0, 4.0, -4.0), self.p1.nan_to_num(0.0, 4.0, -4.0)
        )
        loss = weighed(self.p0) + weighed(v5)
        return loss, []


INPUTS = (plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (4, 4), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
