"""The gradients of the weights of a norm over a tensor of one dimension were sums over all of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.float32))
        self.p1 = nn.Parameter(plain([1.0, -2.0, 0.5, 3.0], (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = nn.functional.layer_norm(x0, x0.shape, self.p0, self.p0)
        v1 = nn.functional.rms_norm(x0, x0.shape, self.p1)
        loss = weighed(v0) + weighed(v1)
        return loss, [v0, v1]


INPUTS = (plain([1.0, -2.0, 0.5, 3.0], (4,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
