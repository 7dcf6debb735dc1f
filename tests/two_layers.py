"""Two linear layers with something between them that a test chooses, and batches for them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

WIDTH = 6
mse = nn.functional.mse_loss


class Model(nn.Module):
    """Two layers, with `between` on what stands between them."""

    def __init__(self, between: Callable[[Model, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        """f32[4, WIDTH] → f32[4, WIDTH]."""
        return self.second(self.between(self, self.first(x)))


def batches() -> list[tuple[Tensor, Tensor]]:
    """Three of inputs f32[4, WIDTH] and targets f32[4, WIDTH]."""
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(4, WIDTH, generator=generator), torch.randn(4, WIDTH, generator=generator)) for _ in range(3)]
