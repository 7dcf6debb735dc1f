"""A false alarm: a narrow number beside a whole one, of which a power has no value."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed

# fmt: off
VALUES_0 = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
]
VALUES_1 = [
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
]
# fmt: on


class Step(nn.Module):
    b0: Tensor
    b1: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(
            plain(
                VALUES_0,
                (2, 2, 4, 4),
                torch.float32,
            )
        )
        self.register_buffer("b0", plain([-1.0, 0.25, -3.0, -0.5, -1.0, 1.5, 4.0, -1.0], (2, 1, 2, 2), torch.float32))
        self.register_buffer("b1", plain([2.0, 0.0, -2.0, 0.25, 0.5, 4.0, 1.0, -0.5], (2, 1, 2, 2), torch.bfloat16))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = nn.functional.scaled_dot_product_attention(
            self.b1.nan_to_num(0.0, 4.0, -4.0),
            self.b1.nan_to_num(0.0, 4.0, -4.0),
            self.b1.nan_to_num(0.0, 4.0, -4.0),
            attn_mask=self.b0,
            scale=0.5,
        )
        v8 = self.b0**v6
        loss = weighed(self.p0)
        return loss, [v8]


INPUTS = (
    plain(
        VALUES_1,
        (2, 2, 4, 4),
        torch.int64,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
