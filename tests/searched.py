"""Small steps for which plans are searched: blocks of two layers beside each other, on the device meta or not."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

import dmc
from dmc.importer.forward.precision import Precision
from dmc.search import Problem

MACHINE, RANKS = "h100x2", 2
_INPUTS, _OUTPUTS = 16, 4


class Block(nn.Module):
    """A layer of a transformer without attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Tensors of any shape [..., width]."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def blocks(width: int, layers: int, is_meta: bool = True) -> nn.Module:
    """A model of some equal blocks."""
    torch.manual_seed(0)
    with torch.device("meta") if is_meta else nullcontext():
        inside = [Block(width) for _ in range(layers)]
        return nn.Sequential(nn.Linear(_INPUTS, width), *inside, nn.Linear(width, _OUTPUTS))


def batch(rows: int, length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs and targets, f32 [rows, length, …] from a normal distribution."""
    random = torch.Generator().manual_seed(seed)
    inputs, targets = ((rows, length, size) for size in (_INPUTS, _OUTPUTS))
    return torch.randn(inputs, generator=random), torch.randn(targets, generator=random)


def problem(width: int, rows: int, length: int, layers: int = 5, **options: Any) -> Problem:
    """A search for a model of blocks; `options` are fields of `Problem`."""
    given: dict[str, Any] = {"target": "cpu", "machine": MACHINE, "ranks": RANKS, **options}
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    example, loss = batch(rows, length), nn.functional.mse_loss
    return Problem(blocks(width, layers), loss, optimizer, example, Precision.FP32, **given)
