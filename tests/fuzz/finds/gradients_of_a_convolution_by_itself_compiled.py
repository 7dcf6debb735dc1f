"""In float64 PyTorch gives no gradient of a bias that is not asked for: verification failed on it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.train import Mode
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0, 0, 0], (3,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = nn.functional.conv1d(x0, x0.nan_to_num(0.0, 4.0, -4.0), self.p0, padding=1)
        v6 = nn.functional.pad(v5, (1, 1), mode="reflect")
        loss = weighed(self.p0) + weighed(v6)
        return loss, [v6]


INPUTS = (
    plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 3, 3), torch.float32),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
MODE = Mode(precision="bf16-mixed", accumulate=1, ranks=1)
