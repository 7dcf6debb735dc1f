"""Eager with means that are rounded otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dmc.verification.other_means import OtherMeans
from dmc.verification.roundings import MARGIN, UNIT, of_order

aten = torch.ops.aten
torch.manual_seed(0)
X = 3.0 + torch.randn(30, 4, 50, dtype=torch.float64)
WEIGHT, BIAS = torch.randn(2, 4, dtype=torch.float64)
SCALE, SHIFT = WEIGHT[:, None].expand(4, 50).contiguous(), BIAS[:, None].expand(4, 50).contiguous()
Normalised = tuple[Tensor, Tensor, Tensor]
NORMALISATIONS: dict[str, tuple[Callable[[Tensor], Normalised], int, Callable[[Tensor], Tensor]]] = {
    "batch": (
        lambda x: aten.native_batch_norm(x, WEIGHT, BIAS, None, None, True, 0.1, 1e-5),
        1500,
        lambda x: x[:, None],
    ),
    "layer": (lambda x: aten.native_layer_norm(x, [4, 50], SCALE, SHIFT, 1e-5), 200, lambda x: x),
    "group": (
        lambda x: aten.native_group_norm(x, WEIGHT, BIAS, 30, 4, 50, 2, 1e-5),
        100,
        lambda x: x.repeat_interleave(2, 1)[:, :, None],
    ),
}


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_a_normalisation_is_that_of_its_mean(name: str) -> None:
    """The mean is off by the share of its number of terms, and the result by the mean."""
    normalise, terms, spread = NORMALISATIONS[name]
    _, exact, _ = normalise(X)
    with OtherMeans():
        y, mean, rstd = normalise(X)
    share = (mean / exact - 1.0).abs()
    torch.testing.assert_close(share, torch.full_like(share, of_order(terms) / MARGIN), rtol=1e-3, atol=0.0)
    assert len((mean > exact).unique()) == 2
    expected = (X - spread(mean)) * spread(rstd) * WEIGHT[:, None] + BIAS[:, None]
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "mean", [torch.mean, lambda x: x.mean((0, 2)), lambda x: torch.var_mean(x, (0, 2))[1]], ids=["all", "some", "var"]
)
def test_a_mean_is_off_by_a_unit_at_least(mean: Callable[[Tensor], Tensor]) -> None:
    """Of few terms in this case."""
    x = X[:2, :, :1]
    with OtherMeans():
        found = mean(x)
    share = (found / mean(x) - 1.0).abs()
    torch.testing.assert_close(share, torch.full_like(share, UNIT), rtol=1e-3, atol=0.0)


def test_statistics_of_eval_mode_are_no_means() -> None:
    with OtherMeans():
        y = functional.batch_norm(X, BIAS, WEIGHT.abs())
    assert torch.equal(y, functional.batch_norm(X, BIAS, WEIGHT.abs()))


def test_means_of_equal_columns_are_off_alike() -> None:
    """What several of them leave of a constant adds up."""
    x = torch.full((1000, 48), 1.7)

    def means() -> list[torch.Tensor]:
        return [x.mean(0), aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1]]

    with OtherMeans():
        found = means()
    for mean, exact in zip(found, means(), strict=True):
        assert len(mean.unique()) == 1
        assert float(mean[0]) > float(exact[0]) * (1.0 + 0.5 * of_order(1000) / MARGIN)
