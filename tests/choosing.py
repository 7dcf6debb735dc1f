"""A model whose loss is any function of what a mask of data chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

ROWS, COLUMNS, WIDTH = 3, 5, 6
Use: TypeAlias = Callable[["Choosing", Tensor, Tensor, Tensor], Tensor]
Batch: TypeAlias = tuple[Tensor, ...]


class Choosing(nn.Module):
    """A loss of x [3, 5, 6], a mask [3, 5] and classes [3, 5]."""

    def __init__(self, use: Use) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.use = use

    def forward(self, x: Tensor, mask: Tensor, classes: Tensor) -> Tensor:
        return self.use(self, x, mask, classes)


def itself(output: Tensor, _: Tensor) -> Tensor:
    return output


def batch(share: float = 0.5, rows: int = ROWS) -> Batch:
    """share: of elements that the mask chooses, at least one of each row unless it is negative."""
    x, mask = torch.randn(rows, COLUMNS, WIDTH), torch.rand(rows, COLUMNS) < share
    mask[:, 0] = share > 0.0
    return x, mask, torch.randint(WIDTH, (rows, COLUMNS)), torch.zeros(rows)
