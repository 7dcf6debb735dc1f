"""Functions of mathematics without a lowering of their own, in one compiled step, beside PyTorch eager."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, linalg, nn
from torch.nn import functional

import dmc
from tests.compiled import assert_descends_as_eager

SEGMENTS = torch.tensor([1, 0, 5])


class Mathematics(nn.Module):
    """A parameter for each group of functions."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(3, 3) + 2.0 * torch.eye(3))
        self.points = nn.Parameter(torch.linspace(0.05, 0.95, 12))
        self.image = nn.Parameter(torch.randn(1, 2, 5, 4))
        self.grid = nn.Parameter(torch.rand(1, 2, 2, 2) - 0.5)
        self.bags = nn.EmbeddingBag(6, 4, mode="max")

    def forward(self, index: Tensor) -> list[Tensor]:
        """The results; index i64[3, 2] into the table."""
        wide, x = self.matrix[:2], self.points
        return [
            linalg.eigvalsh(wide @ wide.T),
            linalg.matrix_exp(0.1 * self.matrix),
            torch.special.i0e(4.0 * x) + torch.special.ndtri(x) * torch.special.erfcx(x) + torch.erfc(x),
            *(torch.segment_reduce(x.view(6, 2), how, lengths=SEGMENTS, initial=1.0) for how in ("mean", "max")),
            linalg.svdvals(wide),
            functional.grid_sample(self.image, self.grid, align_corners=False),
            functional.interpolate(self.image, size=(3, 3), mode="bicubic", antialias=True),
            torch.cov(self.matrix) * self.bags(index).sum(),
        ]


def _total(outputs: Any, scale: Tensor) -> Tensor:
    weighted = [each.flatten() @ torch.arange(1.0, each.numel() + 1.0) / each.numel() for each in outputs]
    return scale * torch.stack(weighted).sum()


def test_mathematics_descends_as_eager() -> None:
    torch.manual_seed(0)
    model, batch = Mathematics(), (torch.tensor([[0, 1], [2, 2], [5, 3]]), torch.tensor(0.1))
    step = dmc.compile(model, loss=_total, optimizer=dmc.optim.SGD(lr=1.0), example=batch, verify=False)
    assert_descends_as_eager(step, model, _total, batch)
