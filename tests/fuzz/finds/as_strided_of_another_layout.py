"""Memory that lies column by column was read by as_strided as if it lay row by row."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, transposed, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0], (2, 2), torch.float32))
        self.register_buffer("b0", transposed([2, 2, 2, 2, 2, 1, 2, 2, 2, 2], (2, 5), torch.float32))

    def forward(self, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v7 = nn.functional.batch_norm(self.b0, None, None, training=True)
        v8 = v7.clone().as_strided((2, 2), (1, 1))
        loss = weighed(self.p0)
        return loss, [v8]


INPUTS = (plain([1], (), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
