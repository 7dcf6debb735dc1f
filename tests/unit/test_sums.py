"""Products of three tensors mean what PyTorch means by them, in PyTorch itself."""

from __future__ import annotations

import math

import pytest
import torch

from dmc.importer.decompositions import sums

aten = torch.ops.aten
# The dimensions that the operands of a bilinear layer lack, and those that are added up: forward, and each gradient.
LACKING = [[1, 3], [0], [1, 2], [2, 3]]
FORMS = [LACKING, *([*LACKING[:i], LACKING[3], *LACKING[i + 1 : 3], LACKING[i]] for i in range(3))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_products_of_three_meet_in_the_order_of_pytorch(form: list[list[int]], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.tensor([1.0, -2.0, 0.5, 3.0, math.inf, -math.inf])
    found = 0
    for _ in range(40):
        sizes = [[2 for dim in range(4) if dim not in lacks] for lacks in form[:3]]
        given = [numbers[torch.randint(0, 6, size, generator=generator)].to(dtype) for size in sizes]
        given = [torch.where(torch.rand(each.shape, generator=generator) < 0.2, 0.0, each).to(dtype) for each in given]
        expected = aten._trilinear(*given, *form)
        torch.testing.assert_close(sums.OWN[aten._trilinear.default](*given, *form), expected, equal_nan=True)
        found += int(expected.isinf().sum())
    assert found


@pytest.mark.parametrize("scale", [1e30, 1.0, 1e-30], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_deviation_neither_overflows_nor_vanishes(scale: float, dtype: torch.dtype) -> None:
    x = (torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)) * scale).to(dtype)
    for dim, keepdim in ((None, False), ([1], True), ([0, 2], False)):
        own = sums.OWN[aten.std.correction](x, dim, correction=1, keepdim=keepdim)
        torch.testing.assert_close(own, aten.std.correction(x, dim, correction=1, keepdim=keepdim), atol=0.0, rtol=1e-2)


def test_the_deviation_of_what_is_not_finite_or_zero() -> None:
    for row in ([1.0, math.inf], [1.0, math.nan], [0.0, 0.0], [-0.0]):
        own = sums.OWN[aten.std.correction](torch.tensor(row), [0], correction=1)
        torch.testing.assert_close(own, torch.tensor(row).std(0), equal_nan=True)


@pytest.mark.parametrize("shape", [(128, 2, 128, 130), (1, 1, 2050, 2050), (8, 2, 512, 512)], ids=str)
@pytest.mark.parametrize("places", ["a corner", "a lattice", "one pixel"])
def test_the_variance_of_large_columns_is_right_where_few_numbers_stand_out(
    shape: tuple[int, ...], places: str
) -> None:
    """Everywhere else is the same rounding error."""
    x = torch.full(shape, 0.1)
    step = {"a corner": 1 << 20, "a lattice": 8, "one pixel": 1 << 20}[places]
    first = 3 if places == "one pixel" else 0
    x[:, :, first::step, first::step] = 1071.3
    variance, mean = sums.OWN[aten.var_mean.correction](x, [0, 2, 3], correction=1)
    expected = torch.var_mean(x.double(), (0, 2, 3))
    torch.testing.assert_close(variance.double(), expected[0], rtol=3e-5, atol=0.0)
    torch.testing.assert_close(mean.double(), expected[1], rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("offset", [0.0, 1e4, -3e6])
def test_the_variance_of_columns_far_from_zero(offset: float) -> None:
    x = torch.randn(16, 3, 4, 5, generator=torch.Generator().manual_seed(0)) + offset
    for dims, keepdim in (([0, 2, 3], True), ([0], False), ([-1, 0], False)):
        own = sums.OWN[aten.var_mean.correction](x, dims, correction=0, keepdim=keepdim)
        expected = torch.var_mean(x.double(), dims, correction=0, keepdim=keepdim)
        assert own[0].shape == expected[0].shape
        torch.testing.assert_close(own[0].double(), expected[0], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [((16, 300), [0]), ((4, 24, 9, 7), [0, 2, 3]), ((8, 16, 192, 192), [0, 2, 3]), ((16, 300), [1]), ((3, 4, 90), [2])],
    ids=str,
)
def test_a_mean_is_rounded_once(shape: tuple[int, ...], dims: list[int]) -> None:
    """A rounded sum, divided, is up to a unit in the last place off."""
    x = 1000.0 + 0.5 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    mean = sums.OWN[aten.var_mean.correction](x, dims, correction=0)[1]
    unit = 2.0**-14
    assert float((mean.double() - x.double().mean(dims)).abs().max()) <= 0.501 * unit


@pytest.mark.parametrize("shape", [(16, 3, 4, 5), (8, 2, 512, 512)], ids=str)
@pytest.mark.parametrize("place", [0, -1])
def test_the_mean_of_an_infinity(shape: tuple[int, ...], place: int) -> None:
    x = torch.ones(shape)
    x[place, 0, place, place], x[place, 1, place, place] = math.inf, -math.inf
    variance, mean = sums.OWN[aten.var_mean.correction](x, [0, 2, 3], correction=0)
    torch.testing.assert_close(mean, x.mean((0, 2, 3)))
    assert variance[:2].isnan().all()


def test_the_variance_of_nothing_and_of_a_scalar() -> None:
    for x, dims in ((torch.zeros(0, 3), [0]), (torch.zeros(0, 3, 4, 4), [0, 2, 3]), (torch.tensor(2.0), [0])):
        own = sums.OWN[aten.var_mean.correction](x, dims, correction=0)
        expected = torch.var_mean(x, dims, correction=0)
        for found, wanted in zip(own, expected, strict=True):
            torch.testing.assert_close(found, wanted, equal_nan=True)


def test_no_variance_is_negative() -> None:
    """However sums are rounded."""
    total, squares = torch.tensor([[3.0, 3.0], [3.0 - 1e-12, 4.0]], dtype=torch.float64)
    spread = sums._spread(torch.ones(3, 2), [0], total, squares, 0.0)  # pyright: ignore[reportPrivateUsage]
    torch.testing.assert_close(spread, torch.tensor([0.0, 1 / 3]), rtol=1e-6, atol=0.0)
