"""What has the sign of a NaN that an operation gave: PyTorch leaves that open."""

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
        q = x0.nan_to_num(0.0, 4.0, -4.0)
        attention = nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=x0)
        return weighed(self.p0), [torch.copysign(x0, attention)]


INPUTS = (plain([float("inf"), 0.25, 1.0, float("nan")], (2, 2), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
