"""What returns its operand itself, as dropout in eval mode does: turned in place, the operand is turned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, weighed


class Step(nn.Module):
    b0: Tensor
    b1: Tensor
    b2: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain([0.5, -1.0], (2,), torch.float32))
        for name in ("b0", "b1", "b2"):
            self.register_buffer(name, plain([1.0, 2.0, 3.0, 4.0], (2, 2), torch.float32))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        nn.functional.dropout(self.b0, 0.5, training=False).transpose_(0, 1)
        torch.atleast_2d(nn.functional.dropout(self.b1, 0.0)).t_()
        x0.contiguous().t_()
        nn.functional.dropout(self.b2, 0.5, training=False).clone().t_()
        loss = weighed(self.p0)
        return loss, [x0 * self.b0, self.b1 + x0, self.b2 - x0]


INPUTS = (plain([1.0, 3.0, 5.0, 7.0], (2, 2), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
