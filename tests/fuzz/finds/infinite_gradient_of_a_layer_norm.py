"""Where a gradient is infinite, eager's layer normalisation on a CPU gives NaN, on a GPU infinities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([2.0, 1.0, 1.0, 2.0, 1.0, 2.0, 0.5, -1.0], (2, 4), torch.float32))
        self.register_buffer("b0", plain([2.0, -1.5, float("inf"), 0.0, 1.0, 0.5, -2.0, 1.5], (2, 4), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = nn.functional.layer_norm(self.p0, self.p0.shape[-1:])
        loss = weighed(v0 * self.b0 + x0)
        return loss, []


INPUTS = (plain([1.0], (1,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
