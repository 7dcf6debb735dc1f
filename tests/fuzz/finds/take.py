"""An operation that cannot be traced was reported by PyTorch's own error."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import broadcast, plain, transposed, untied, weighed


class Step(nn.Module):
    b0: Tensor
    b1: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(
            transposed(
                [
                    -0.5,
                    -0.5,
                    0.25,
                    1.5,
                    -3.0,
                    -3.0,
                    4.0,
                    -1.5,
                    -1.0,
                    -2.0,
                    4.0,
                    0.5,
                    0.5,
                    -2.0,
                    0.0,
                    -1.5,
                    4.0,
                    -1.0,
                    0.25,
                    0.0,
                    0.0,
                    2.0,
                    2.0,
                    0.5,
                ],
                (2, 4, 3),
                torch.float32,
            )
        )
        self.register_buffer(
            "b0",
            plain(
                [
                    1.5,
                    1.0,
                    4.0,
                    1.0,
                    1.0,
                    1.0,
                    -0.5,
                    0.5,
                    -0.5,
                    -1.0,
                    4.0,
                    -0.5,
                    -0.5,
                    -1.5,
                    0.25,
                    1.0,
                    4.0,
                    0.0,
                    1.0,
                    -3.0,
                    -2.0,
                    0.25,
                    0.25,
                    0.25,
                ],
                (2, 4, 3),
                torch.float32,
            ),
        )
        self.register_buffer("b1", plain([4.0, -3.0, 1.5, 1.0], (4,), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = nn.functional.batch_norm(self.b0, None, None, training=True)
        _, v8 = untied(self.b1).kthvalue(3, 0)
        v6[:, 1] = 1.5
        v12 = x1.take(v8)
        loss = weighed(self.p0)
        return loss, [v12]


INPUTS = (
    broadcast([-2.0, 1.5, -1.0], (3,), torch.float16),
    plain([-1.0, 4.0, 0.5, 0.5], (4,), torch.float32),
)
OPTIMIZER = dmc.optim.Adam(lr=0.125, betas=(0.5, 0.75), eps=0.125, weight_decay=0.25)
