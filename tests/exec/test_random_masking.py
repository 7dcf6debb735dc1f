"""Masking by sorted noise, as masked autoencoders do it: short rows, sorted twice, are one ranking each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

import dmc
from dmc.importer.decompositions.selection import sort, topk

PATCHES, KEPT, WIDTH = 16, 4, 8


class Masked(nn.Module):
    """Keeps the patches with the least noise, and restores the order with a token for the others."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.token = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.zeros(1, 1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """[B, PATCHES, WIDTH] → the loss."""
        order = torch.argsort(torch.rand(len(x), PATCHES), dim=1)
        back = torch.argsort(order, dim=1)
        kept = x.gather(1, order[:, :KEPT, None].expand(-1, -1, WIDTH))
        hidden = torch.cat([self.encoder(kept), self.token.expand(len(x), PATCHES - KEPT, -1)], 1)
        hidden = hidden.gather(1, back[..., None].expand(-1, -1, WIDTH))
        mask = (back >= KEPT).float()
        return ((hidden - x).square().mean(-1) * mask).sum() / mask.sum()


def test_a_masked_autoencoder_compiles_and_trains_as_eager() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, PATCHES, WIDTH)
    step = dmc.compile(Masked(), optimizer=dmc.optim.SGD(lr=0.5), example=(x,), verify=True)
    losses = [float(step(x)) for _ in range(40)]
    step.close()
    assert sum(losses[20:]) < sum(losses[:20])


def test_sorting_takes_few_operations_whatever_the_length() -> None:
    for length in (8, 64):
        x = torch.randn(3, length)
        for select in (sort, lambda x: topk(x, x.shape[1])):
            values, places = select(x)
            assert values.equal(x.sort(descending=select is not sort).values)
            assert x.gather(1, places).equal(values)
            assert len(make_fx(partial(_first, select))(x).graph.nodes) < 40


def _first(select: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    return select(x)[0]
