"""A cast that copies is none in float64, where eager then refuses to write into a parameter."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.train import Mode
from tests.fuzz.values import broadcast, plain, weighed

NUMBERS = (
    "-3 -3 0.5 2 -3 4 -3 2 2 -1.5 1.5 0.5 0.25 2 -0.5 2 2 1.5 4 -3 0.5 -0.5 1 -1 0.5 -1.5 -3 1 0 -1.5 4 0 "
    "-0.5 0.25 -1.5 2 4 2 4 -0.5 0.5 4 1.5 0 -1 -1 -1 -2 -1.5 1 -3 1.5 1.5 1.5 -3 0.5 1.5 0.5 0.5 0.25 "
    "1.5 -1 2 1.5 "
)
MASK = "0100100101000100110111111000101111001100010110011111001001101001"


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1], (2, 1, 2, 2), torch.float32))
        self.p1 = nn.Parameter(plain([float(each) for each in NUMBERS.split()], (2, 2, 4, 4), torch.bfloat16))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = self.p1.to(torch.bfloat16).to(torch.float32)
        v5[1:] *= 1.0
        v9 = nn.functional.scaled_dot_product_attention(
            v5.nan_to_num(0.0, 4.0, -4.0), v5.nan_to_num(0.0, 4.0, -4.0), v5.nan_to_num(0.0, 4.0, -4.0), attn_mask=x1
        )
        loss = weighed(self.p0) + weighed(v9)
        return loss, []


INPUTS = (broadcast([each == "1" for each in MASK], (2, 2, 4, 4), torch.bool),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
MODE = Mode(precision="bf16-mixed", accumulate=1, ranks=1)
