"""The running statistics of a normalisation whose result is unused were not updated."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (3, 2, 3), torch.float32))
        self.register_buffer("b0", plain([-3.0, -2.0, -3.0], (3,), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v6 = torch.meshgrid(self.b0.clone(), self.b0.clone(), indexing="ij")[0]
        with torch.no_grad():
            nn.functional.batch_norm(v6, self.b0, torch.ones_like(self.b0), training=True, momentum=0.25)
        nn.functional.instance_norm(v6.unsqueeze(0), self.b0, torch.ones_like(self.b0))
        loss = weighed(self.p0)
        return loss, []


INPUTS = (plain([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], (2, 2, 6), torch.int64),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
