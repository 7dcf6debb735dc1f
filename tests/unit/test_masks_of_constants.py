"""Masks that a model makes of constants choose elements, whose number is known: contrastive losses, pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.interpreted import assert_trains_as_eager

ROWS, WIDTH = 4, 3
Use = Callable[["Pairs", Tensor], Tensor]


class Pairs(nn.Module):
    """A linear layer, whose results `use` compares in pairs."""

    buffer: Tensor

    def __init__(self, use: Use) -> None:
        super().__init__()
        self.head, self.use = nn.Linear(WIDTH, WIDTH), use
        self.others = ~torch.eye(ROWS, dtype=torch.bool)
        self.register_buffer("buffer", self.others.clone())

    def forward(self, x: Tensor) -> Tensor:
        """[ROWS, WIDTH] → []."""
        return self.use(self, self.head(x).tanh())


def _contrast(pairs: Pairs, y: Tensor) -> Tensor:
    alike = y @ y.T
    mask = torch.eye(ROWS // 2, dtype=torch.bool).repeat(2, 2)
    mask[range(ROWS), range(ROWS)] = False
    return (alike[~torch.eye(ROWS, dtype=torch.bool)].view(ROWS, -1).logsumexp(1) - alike[mask]).mean()


def _of_attributes(pairs: Pairs, y: Tensor) -> Tensor:
    upper = torch.from_numpy(np.triu(np.ones((ROWS, ROWS), dtype=bool), 1))
    return (y @ y.T)[pairs.others].exp().sum() + (y @ y.T)[upper].sum() + y[:, torch.tensor([True, False, True])].prod()


def _places(pairs: Pairs, y: Tensor) -> Tensor:
    first, second = torch.nonzero(torch.ones(ROWS, ROWS).triu(1), as_tuple=True)
    third = torch.where(torch.arange(ROWS) % 2 == 0)[0]
    places = torch.argwhere(torch.tensor([0, 1, 1, 0]))[:, 0]
    return (y[first] - y[second]).square().sum() * y[third].sum() * y[places].sum()


def _selected(pairs: Pairs, y: Tensor) -> Tensor:
    classes, counts = torch.unique(torch.tensor([1, 3, 1]), return_counts=True)
    y = torch.where(condition=y > 0, input=y, other=0.5 * y)
    chosen = (
        torch.masked_select(input=y, mask=torch.tensor([True, False, True]))
        + y.masked_select(y.new_ones(1, WIDTH) > 0)[:8]
    )
    return chosen.square().sum() * (y[classes].sum(1) * counts).sum()


def _combined(pairs: Pairs, y: Tensor) -> Tensor:
    rows = torch.combinations(torch.arange(ROWS), 3, with_replacement=True)
    return torch.combinations(y[:, 0]).prod(1).sum() + y[rows].prod(1).sum()


def _assigned(pairs: Pairs, y: Tensor) -> Tensor:
    mask, z = torch.tensor([True, False, False, True]), y.clone()
    z[mask] = y[mask] * 2
    z[mask, 1] = torch.stack([y[1, 0], y[2, 0]])
    z[~mask] = 0.5
    return z.square().sum()


def _of_state(pairs: Pairs, y: Tensor) -> Tensor:
    return y[y > 0].sum() + (y @ y.T)[pairs.buffer].sum()


USES = (_of_state, _contrast, _of_attributes, _places, _selected, _combined, _assigned)


@pytest.mark.parametrize("use", USES)
def test_trains_as_eager(context: Any, use: Use) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(ROWS, WIDTH), torch.zeros([])) for _ in range(2)]
    assert_trains_as_eager(context, Pairs(use), functional.mse_loss, batches)
