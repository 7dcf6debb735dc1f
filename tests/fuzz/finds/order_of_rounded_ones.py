"""An order of numbers that are 1 but for rounding: eager is uncertain, though float64 gives its order by chance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dmc
from tests.fuzz.values import plain, transposed, weighed

# fmt: off
NUMBERS = [
    -3.0, 0.0, 2.0, -3.0, 0.25, -1.0, -1.5, -3.0, 0.0, 0.25, 4.0, -1.0, 1.0, 1.5, 1.5, 1.5, -0.5, -3.0,
    0.25, 0.5, 4.0, 1.0, 1.5, -1.5, 1.0, 0.0, 0.25, 1.0, -0.5, 1.5, 0.25, 0.25, 2.0, 0.5, 1.5, -1.0,
    0.25, 4.0, 0.0, 2.0, 0.25, -0.5, 0.5, -2.0, -1.0, 2.0, 0.5, 4.0, -3.0, -1.5, 1.0, 0.5, 4.0, 1.0,
    2.0, 0.25, 1.0, 1.0, -3.0, -0.5, -1.0, -0.5, 2.0, 0.5,
]
LARGE = [
    -7, -1, 2, 1, 2, 0, 9007199254740993, -3, 5, 9007199254740993, 16777217, 8, -7, -1, 0,
    9007199254740993, 0, -3, 8, -1099511627776, -1099511627776, -2, -1, -2, 9007199254740993, -7, 0, -2,
    8, -1, 1, 0, -7, 1, 2, 9007199254740993, -7, -1099511627776, 16777217, -3, -7, 1, 5, 8,
    9007199254740993, 0, 9007199254740993, 2, 3, 16777217, 3, -2, 3, -2, 0, 5, 16777217,
    9007199254740993, 8, -1099511627776, -7, 3, 0, -1099511627776,
]
OTHERS = [
    0.5, -3.0, 4.0, 0.25, 2.0, 0.5, 1.0, -3.0, -2.0, 4.0, 0.5, 0.5, -1.5, 0.25, -1.0, 4.0, -1.5, 1.5,
    2.0, -0.5, 0.0, 1.0, 0.5, -0.5, -1.0, 0.0, -3.0, -2.0, 0.0, 0.5, 1.5, 4.0, 1.5, 0.0, 4.0, 4.0, -1.0,
    -0.5, -3.0, -2.0, 1.5, -1.0, -3.0, 2.0, 4.0, -1.0, -1.5, 1.0, 0.0, 1.0, 0.25, -2.0, 0.5, 0.5, -2.0,
    4.0, 0.5, 4.0, 0.0, -1.0, 2.0, 1.5, 0.0, 0.25,
]
# fmt: on


class Step(nn.Module):
    b0: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.p0 = nn.Parameter(plain(NUMBERS, (4, 4, 4), torch.float32))
        self.register_buffer("b0", transposed(LARGE, (4, 4, 4), torch.int64))

    def forward(self, x0: Tensor) -> tuple[Tensor, list[Tensor]]:
        v0 = torch.add(self.b0, self.p0, alpha=2)
        v1 = nn.functional.cosine_similarity(v0, v0, -1)
        v2 = torch.select_scatter(x0, v1, 2, -1)
        _, v3 = v2.exp().kthvalue(3, -3)
        return weighed(self.p0), [v3]


INPUTS = (plain(OTHERS, (4, 4, 4), torch.float32),)
OPTIMIZER = dmc.optim.SGD(lr=0.125)
