"""Binary searches give eager's places, with ties, NaN, and boundaries that are not sorted."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from dmc.importer.decompositions.selection import searchsorted
from tests.interpreted import assert_trains_as_eager

NUMBERS = st.sampled_from([-math.inf, -1.0, -0.0, 0.0, 0.5, 2.0, math.inf, math.nan])


@given(st.lists(NUMBERS, max_size=9), st.lists(NUMBERS, max_size=4), st.booleans(), st.booleans())
def test_every_place_is_eagers(row: list[float], x: list[float], right: bool, is_sorted: bool) -> None:
    boundaries, numbers = torch.tensor(sorted(row) if is_sorted else row), torch.tensor(x)
    found = searchsorted(boundaries, numbers, right=right)
    assert found.equal(torch.searchsorted(boundaries, numbers, right=right))
    assert found.equal(torch.bucketize(numbers, boundaries, right=right))


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_scalars_and_sorters_are_eagers(side: str) -> None:
    torch.manual_seed(0)
    rows, x = torch.randn(2, 3, 7), torch.randn(2, 3, 4)
    order = rows.argsort(-1)
    found = searchsorted(rows, x, side=side, sorter=order, out_int32=True)
    assert found.dtype == torch.int32
    assert found.equal(torch.searchsorted(rows, x, side=side, sorter=order, out_int32=True))
    row = torch.tensor([1, 3, 3, 5])
    for number in (0, 3, 9):
        assert searchsorted(row, number, side=side).equal(torch.searchsorted(row, number, side=side))
        at = torch.tensor(number)
        assert searchsorted(row, at, side=side).equal(torch.searchsorted(row, at, side=side))


class Resampled(nn.Module):
    """Samples of a distribution along each ray, as NeRF draws its fine ones."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.rand(3, 8))

    def forward(self, at: Tensor) -> Tensor:
        """[3, N] in [0, 1] → [3, N]."""
        total = self.weights.softmax(-1).cumsum(-1)
        places = torch.searchsorted(total.detach(), at, right=True)
        classes = torch.bucketize(at, torch.tensor([0.25, 0.5, 0.75]))
        factors = at + classes + 10 * torch.isin(places, torch.arange(5))
        return total.gather(1, (places - 1).clamp(min=0)) * factors


def test_trains_as_eager(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.rand(3, 5), torch.rand(3, 5)) for _ in range(3)]
    assert_trains_as_eager(context, Resampled(), functional.mse_loss, batches)
