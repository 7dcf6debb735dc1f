"""Small models whose logits are a product, of so many classes that no tile divides them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES, WIDTH = 131, 16


class Linear(nn.Module):
    """An embedding and a head, whose weights may be one."""

    def __init__(self, *, bias: bool = False, tied: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES, bias=bias)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, index: Tensor) -> Tensor:
        return self.head(self.inner(self.embedding(index)))


class Tied(Linear):
    """With one weight."""

    def __init__(self, *, bias: bool = False) -> None:
        super().__init__(bias=bias, tied=True)


class Columns(nn.Module):
    """A weight that lies as it is multiplied: its gradient has a column for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.weight = nn.Parameter(torch.randn(WIDTH, CLASSES) / 4)

    def forward(self, index: Tensor) -> Tensor:
        return self.embedding(index) @ self.weight
