"""An operation that cannot be traced was reported by PyTorch's own error."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, untied, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.0, 2.0], (2,), torch.float32))
        self.register_buffer("b0", plain([4.0, -3.0, 1.5, 1.0], (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        index = untied(self.b0).kthvalue(3, 0)[1]
        loss = weighed(self.p0)
        return loss, [x0.take(index)]


INPUTS = (plain([-1.0, 4.0, 0.5, 0.5], (4,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
