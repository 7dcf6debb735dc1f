"""A false alarm: a number whose sign rounding decides is zero in one of two, where a gradient jumps."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1], (2,), torch.float32))
        self.p2 = nn.Parameter(
            plain(
                [
                    2.0,
                    -0.5,
                    -0.5,
                    1.5,
                    4.0,
                    -1.5,
                    0.25,
                    2.0,
                    0.0,
                    0.5,
                    1.5,
                    -1.0,
                    0.5,
                    1.0,
                    -3.0,
                    -1.5,
                    1.0,
                    -3.0,
                    1.0,
                    0.0,
                    1.0,
                    1.5,
                    -1.0,
                    0.5,
                ],
                (2, 2, 6),
                torch.float32,
            )
        )

    def forward(self, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = nn.functional.layer_norm(self.p2, self.p2.shape[-2:])
        v8 = nn.functional.instance_norm(v6)
        v11 = torch.copysign(v8, v8)
        loss = weighed(self.p0) + weighed(v11)
        return loss, []


INPUTS = (plain([1, 1, 1], (3,), torch.int8),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
