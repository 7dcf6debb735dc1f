"""Operations whose operands are all constants."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        real, whole, true = torch.full_like(x0, -3), torch.full((2,), -7), torch.ones(2, dtype=torch.bool)
        numbers = [real + -2, real - -2, real * -2, real.bfloat16() * -2, whole + -2, true + true]
        remainders = [real % -2, real % 2.5, whole % 2, true % -2, whole % -2.0]
        quotients = [whole // 2, whole // -2, torch.div(whole, 3, rounding_mode="trunc"), whole // real]
        chosen = [torch.where(true > 0, real, 1.0), true.masked_fill(true > 0, 0), true.float().cumsum(0)]
        outputs = [*numbers, *remainders, *quotients, *chosen]
        return weighed(self.p0) + weighed(self.p0 * (real + -2)), outputs


INPUTS = (plain([1.0, 2.0], (2,), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
