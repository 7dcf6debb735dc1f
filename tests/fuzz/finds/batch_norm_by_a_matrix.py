"""The weights of a batch normalisation may have two dimensions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b1: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0], (), torch.float32))
        self.register_buffer("b1", plain([1.5, 0.5, -3.0, 1.5, 0.0, -2.0, 1.5, -3.0, -2.0], (3, 3, 1), torch.bfloat16))

    def forward(self, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v5 = torch.linalg.vector_norm(self.b1, float("inf"), dim=-2)
        v7 = nn.functional.batch_norm(
            self.b1.contiguous(),
            None,
            None,
            v5.nan_to_num(0.0, 4.0, -4.0),
            v5.nan_to_num(0.0, 4.0, -4.0),
            training=True,
        )
        loss = weighed(self.p0)
        return loss, [v7]


INPUTS = (plain([1], (), torch.int8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
