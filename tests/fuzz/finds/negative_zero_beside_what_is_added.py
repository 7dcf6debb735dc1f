"""Where nothing is added at an index, -0 stays as it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([1.0, 2.0, -1.0, 0.5], (4,), torch.float32))

    def forward(self, x0: Tensor, x2: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = x0.index_put((x2,), self.p0, accumulate=True)
        v1 = x0.scatter_add(0, x2, self.p0)
        v2 = x0.scatter_reduce(0, x2, self.p0, "sum")
        v3 = x0.scatter_reduce(0, x2, self.p0, "mean")
        v4 = x0.index_add(0, x2, self.p0)
        signs = [torch.atan2(each, each) for each in (v0, v1, v2, v3, v4)]
        loss = weighed(torch.stack(signs))
        return loss, signs


INPUTS = (
    plain([-1.5, -0.0, 1.0, -0.0, 0.0], (5,), torch.float32),
    plain([0, 2, 2, 4], (4,), torch.int64),
)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
