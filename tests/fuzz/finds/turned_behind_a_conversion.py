"""A conversion to the type that a tensor has returns the tensor itself: turned in place, the tensor is turned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0], (2,), torch.float32))
        self.register_buffer("b0", plain([1.0, 2.0, 3.0, 4.0], (2, 2), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        self.b0.to(torch.float32, non_blocking=True).transpose_(0, 1)
        self.b0.to(torch.float32, copy=True).t_()
        x0.float().type_as(self.b0).t_()
        loss = weighed(self.p0)
        return loss, [x0 * self.b0]


INPUTS = (plain([1.0, 3.0, 5.0, 7.0], (2, 2), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
