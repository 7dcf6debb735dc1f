"""An input whose rows share memory: `reshape` copies it, where verification had made the rows distinct."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.train import Mode
from tests.fuzz.values import broadcast, plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0, 0, 0, 0, 0, 0, 0], (3, 3), torch.float32))
        self.p2 = nn.Parameter(plain([1, 1, 1, 1], (4,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        x0.reshape(-1)[:-1].mul_(0.5)
        _, v9 = torch.var_mean(self.p2.nan_to_num(0.0, 4.0, -4.0), 0)
        v10 = torch.fmin(x0, v9)
        loss = weighed(self.p0) + weighed(v10)
        return loss, []


INPUTS = (broadcast([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (4, 3), torch.bfloat16),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
MODE = Mode(precision="fp32", accumulate=2, ranks=1)
