"""What was written through an expansion came back by a difference: NaN of infinities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor
    b1: Tensor
    b2: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0, 0.25], (4,), torch.float32))
        for name in ("b0", "b1", "b2"):
            self.register_buffer(name, plain([float("inf"), float("-inf"), 100000000.0], (3,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = self.b0.expand_as(x0)
        v0.clamp_(-1, 1)
        self.b0.expand((1, 3)).add_(x0)
        torch.broadcast_to(self.b1, (1, 3)).clamp_(-1, 1)
        torch.broadcast_tensors(self.b1, x0)[0].add_(x0)
        torch.meshgrid(self.b2, x0[0, :1], indexing="ij")[0].clamp_(-1, 1)
        with torch.no_grad():
            self.b2.expand(1, 1, 3)[0].mul_(x0)
        loss = weighed(self.p0)
        return loss, []


INPUTS = (plain([1.0, 2.0, 3.0], (1, 3), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
