"""Scores of attention beyond the range of f16 were infinite, and NaN behind a mask; eager keeps them in f32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0], (2,), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = nn.functional.scaled_dot_product_attention(x0, x0, x0, attn_mask=x1)
        loss = weighed(self.p0)
        return loss, [v0]


INPUTS = (
    plain([200.0, 256.0, 200.0, 1.0, 200.0, 256.0], (1, 2, 3), torch.float16),
    plain([True, False, True, True], (1, 2, 2), torch.bool),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
