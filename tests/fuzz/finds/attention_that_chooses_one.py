"""Attention with probabilities 0 and 1: its gradient is what rounding leaves of a difference that is 0 in eager."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1], (), torch.float32))
        self.p1 = nn.Parameter(
            plain(
                [
                    -3.0,
                    0.5,
                    1.5,
                    4.0,
                    -0.5,
                    -2.0,
                    -2.0,
                    4.0,
                    -3.0,
                    -0.5,
                    -3.0,
                    -2.0,
                    -2.0,
                    -1.0,
                    0.5,
                    -1.5,
                    -1.5,
                    1.0,
                    -1.5,
                    4.0,
                    -1.5,
                    -1.0,
                    1.0,
                    1.5,
                    1.0,
                    -1.0,
                    0.25,
                ],
                (3, 3, 3),
                torch.float32,
            )
        )

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v4 = self.p1.repeat_interleave(3, dim=2)
        v5 = v4**2
        v8 = nn.functional.scaled_dot_product_attention(
            v5.nan_to_num(0.0, 4.0, -4.0),
            v5.nan_to_num(0.0, 4.0, -4.0),
            v5.nan_to_num(0.0, 4.0, -4.0),
            attn_mask=self.p1,
            scale=0.5,
        )
        loss = weighed(self.p0) + weighed(v8)
        return loss, []


INPUTS = (plain([1], (), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
