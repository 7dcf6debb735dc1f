"""A loss may have dimensions if it has one element, as eager's `backward` allows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.errors import ImportFailure
from tests.compiled import assert_descends_as_eager


class Scores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 3] → [B, 1]."""
        return self.head(x)


def _product(scores: Tensor, target: Tensor) -> Tensor:
    return target.T @ scores


@pytest.mark.parametrize("accumulate", [1, 2])
def test_descends_as_eager(accumulate: int) -> None:
    torch.manual_seed(0)
    model, batch = Scores(), (torch.randn(4, 3), torch.randn(4, 1))

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        return _product(scores, target) / len(target)

    optimizer = dmc.optim.SGD(lr=1.0)
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=batch, accumulate=accumulate, verify=True)
    assert_descends_as_eager(step, model, loss, batch)


def test_more_elements_are_refused() -> None:
    with pytest.raises(ImportFailure, match=r"expected a floating-point tensor of one element, .* shape \[2, 1\]"):
        dmc.compile(
            Scores(),
            loss=lambda scores, target: scores - target,
            optimizer=dmc.optim.SGD(lr=1.0),
            example=(torch.ones(2, 3), torch.ones(2, 1)),
        )
