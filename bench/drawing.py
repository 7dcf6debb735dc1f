"""A small model that draws random numbers of every distribution: what a GPU draws is compared with the CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.models.case import Case

ROWS, WIDTH = 32, 24


class _Noisy(nn.Module):
    """Layers with noise of another kind behind each; draws are of full-size tensors, rows and single numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        h = self.layers[0](x) * torch.rand_like(x) + torch.randn(WIDTH)
        h = h + self.layers[1](h) * torch.empty(ROWS, 1).bernoulli_(0.75).div_(0.75)
        h = h + self.layers[2](h) * torch.bernoulli(h.detach().sigmoid()) * torch.randint(1, 4, (ROWS, WIDTH))
        h = h + functional.gumbel_softmax(self.layers[3](h), tau=0.7) + torch.empty_like(h).exponential_(2.0).log1p()
        share = torch.empty([]).uniform_(0.2, 0.8)
        h = share * h + (1 - share) * h[torch.randperm(ROWS)]
        h = functional.rrelu(self.layers[4](h), training=True) * torch.normal(1.0, h.detach().sigmoid())
        found = torch.multinomial(h.detach().softmax(-1), 3)
        return self.layers[5](functional.dropout(h, 0.2)) + h.gather(1, found).mean(1, keepdim=True)


def _batch(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(ROWS, WIDTH, generator=generator) for _ in range(2))


def build() -> Case:
    """Six layers of width 24; batches of 32 rows from a normal distribution, and as many targets."""
    torch.manual_seed(0)
    return Case("drawing", _Noisy().train(), functional.mse_loss, _batch)
