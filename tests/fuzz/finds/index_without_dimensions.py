"""A gather or scatter by an index that is a number was one by an index as long as the row, or reported by PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0, 2.0], (3,), torch.float32))
        self.p1 = nn.Parameter(plain([4.0], (), torch.float32))

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = self.p0.scatter_add(0, x0, self.p0.detach())
        v1 = self.p0.scatter(0, x0, self.p1)
        v2 = self.p0.scatter(0, x0, 7.0)
        v3 = self.p0.gather(0, x0)
        v4 = self.p1.gather(0, x1)
        v5 = self.p1.scatter_add(0, x1, self.p0.detach())
        v6 = self.p1.scatter(0, x1, self.p0.detach())
        results = [v0, v1, v2, v3, v4, v5, v6]
        loss = torch.stack([weighed(each) for each in results]).sum()
        return loss, results


INPUTS = (
    plain([1], (), torch.int64),
    plain([0], (1,), torch.int64),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
