"""A loss jumps where a deviation is nothing but rounding: eager is uncertain, though float64 rounds to its result."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1], (2,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        with torch.no_grad():
            v6 = nn.functional.scaled_dot_product_attention(
                x0.nan_to_num(0.0, 4.0, -4.0), x0.nan_to_num(0.0, 4.0, -4.0), x0.nan_to_num(0.0, 4.0, -4.0)
            )
        v7 = v6.std(1)
        v8 = nn.functional.hinge_embedding_loss(v7, v7.detach().sign())
        loss = weighed(self.p0)
        return loss, [v8]


INPUTS = (
    plain(
        [-1.5, -1.0, 1.0, 1.0, 4.0, -2.0, 0.5, 1.5, 1.0, -2.0, 1.0, -2.0, 0.5, 1.0, -1.5, 0.5, -1.0, -2.0],
        (3, 2, 3),
        torch.float32,
    ),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
