"""RMS norm of narrow numbers with the default epsilon, which is that of float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0], (2, 2), torch.float32))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v9 = nn.functional.pad(x1, (2, 2))
        v11 = nn.functional.rms_norm(v9, v9.shape[-1:], v9.nan_to_num(0.0, 4.0, -4.0))
        loss = weighed(self.p0)
        return loss, [v11]


INPUTS = (plain([0.25, 0.0], (2,), torch.bfloat16),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
