"""A small model of two blocks and a head, of which one module of each block is never called."""

from __future__ import annotations

import torch
from torch import nn

WIDTH, CLASSES = 8, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)
        self.spare = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Blocks(nn.Module):
    """f32[n, WIDTH] → f32[n, CLASSES]."""

    def __init__(self) -> None:
        super().__init__()
        self.h, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.h:
            x = block(x)
        return self.head(x)
