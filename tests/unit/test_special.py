"""Special functions, scans, medians and distances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dmc.importer.decompositions import approximated, selection, special
from tests.decomposed import assert_decomposes, assert_same, by_rule

aten = torch.ops.aten
NAN, INF = math.nan, math.inf
# Between poles, at them, and where values are large.
POINTS = torch.tensor([-7.3, -2.5, -1e-4, 1e-4, 0.5, 1.0, 1.5, 2.0, 3.7, 8.0, 30.0, 1e4, NAN])
ODD = torch.tensor([-3.0, -2.0, -1.0, -0.0, 0.0, INF])
ROWS = torch.tensor([[3.0, -1.0, 3.0, 2.0, 0.5], [NAN, 1.0, -INF, NAN, INF], [-2.0, -2.0, 0.0, 1.0, 4.0]])


def _same_values(function: Any, x: Tensor) -> None:
    with torch.no_grad():
        assert_decomposes(lambda _: function(x), torch.tensor(0))


@pytest.mark.parametrize("function", [torch.lgamma, torch.digamma], ids=["lgamma", "digamma"])
def test_gamma(function: Any) -> None:
    assert_decomposes(function, POINTS)
    _same_values(function, ODD)


def test_gamma_far_from_zero() -> None:
    """Every large number is whole: a pole, if it is negative."""
    far = torch.tensor([1e20, 3e38, 2.0**24 + 2, 2.0**23 + 1, 1e10, 9e37])
    _same_values(torch.lgamma, torch.cat([far, -far, torch.tensor([-INF])]))
    _same_values(torch.digamma, torch.cat([far, -far, torch.tensor([-INF])]))


def test_gamma_at_its_zeros_and_near_its_pole() -> None:
    x = torch.cat([torch.linspace(0.5, 9.0, 1701), 1.0 + torch.logspace(-7, -2, 30), torch.logspace(-45, -1, 90)])
    own, right = special.OWN[aten.lgamma.default](x), torch.lgamma(x.double())
    assert bool(((own - right).abs() <= 5e-7 * right.abs()).all())


def test_polygamma_between_poles_and_far_away() -> None:
    """At half a negative number two large terms cancel; far away powers are subnormal before the result is."""
    x = torch.tensor([-4.5, -20.5, -103.5, -88.25, 1e9, 1e7])
    for order in (2, 4):
        own, right = special.OWN[aten.polygamma.default](order, x), torch.polygamma(order, x.double())
        assert bool(((own - right).abs() <= 1e-5 * right.abs()).all())


def test_the_slope_of_digamma_anywhere() -> None:
    _same_values(lambda x: torch.polygamma(1, x), torch.cat([POINTS, torch.tensor([INF, -INF, -2.0, 0.49])]))


@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_polygamma(order: int) -> None:
    assert_decomposes(lambda x: torch.polygamma(order, x), POINTS[4:])
    near, far = torch.tensor([-7.3, -1.0 - 2.0**-20, -1.0 + 2.0**-20, -1e-4, 1e-4]), torch.tensor([-13.25, -1000.75])
    _same_values(lambda x: torch.polygamma(order, x), torch.cat([near, far, ODD, torch.tensor([-INF])]))


def test_inverse_of_the_error_function() -> None:
    inside = torch.linspace(-0.999, 0.999, 400)
    assert_decomposes(torch.erfinv, inside)
    # Newton's method takes the approximation to the precision of the type.
    own, right = special.OWN[aten.erfinv.default](inside), torch.erfinv(inside.double())
    assert bool(((own - right).abs() <= 5e-7 * right.abs()).all())
    _same_values(torch.erfinv, torch.tensor([-1.0, 1.0, 1.5, NAN]))


BESSEL = (torch.special.i0, torch.special.i0e, torch.special.i1, torch.special.i1e)


@pytest.mark.parametrize("function", BESSEL, ids=["i0", "i0e", "i1", "i1e"])
def test_bessel_functions(function: Any) -> None:
    assert_decomposes(function, torch.cat([torch.linspace(-20.0, 20.0, 401), torch.tensor([-85.0, 8.0, 1e-30])]))
    _same_values(function, torch.tensor([0.0, 1e6, INF, -INF, NAN]))


def test_the_scaled_error_function() -> None:
    assert_decomposes(torch.special.erfcx, torch.cat([torch.linspace(-3.0, 60.0, 501), torch.tensor([1e6, 1e-30])]))
    _same_values(torch.special.erfcx, torch.tensor([-8.0, -20.0, 0.0, INF, -INF, NAN]))
    most = torch.tensor(torch.finfo(torch.float32).max)
    assert approximated.OWN[aten.special_erfcx.default](most).item() == pytest.approx(0.5641896 / most.item(), rel=1e-4)


def test_what_the_error_function_lacks() -> None:
    x = torch.cat([torch.linspace(-6.0, 9.0, 1001), torch.tensor([0.5, -0.5, 1e-30])])
    assert_decomposes(torch.erfc, x)
    own, right = approximated.OWN[aten.erfc.default](x), torch.erfc(x.double())
    assert bool(((own - right).abs() <= 1e-6 * right).all())
    _same_values(torch.erfc, torch.tensor([0.0, 20.0, -20.0, INF, -INF, NAN]))


def test_quantiles_of_the_normal_distribution() -> None:
    near, tails = torch.linspace(0.001, 0.999, 501), torch.logspace(-44, -1, 200)
    assert_decomposes(torch.special.ndtri, torch.cat([near, math.exp(-2.0) * torch.ones(1)]))
    _same_values(torch.special.ndtri, torch.cat([tails, 1.0 - tails, torch.tensor([0.0, 1.0, -0.1, 1.1, NAN])]))


def test_hypotenuses() -> None:
    values = torch.tensor([0.0, -0.0, 1.0, 3e38, -1e30, INF, -INF, NAN, 1e-30, -3.0])
    a, b = torch.meshgrid(values, values, indexing="ij")
    _same_values(lambda x: torch.hypot(x, b), a)
    assert_decomposes(torch.hypot, *torch.randn(2, 20))


def test_fractions_and_exponents() -> None:
    positive = torch.cat([torch.logspace(-44, 38, 300), torch.tensor([0.5, 1.0, 2.0, 3.4e38])])
    each = torch.cat([positive, -positive, torch.tensor([0.0, -0.0, INF, -INF, NAN])])
    assert_decomposes(lambda x: tuple(torch.frexp(x)), each, rtol=0.0)
    narrow = torch.tensor([2.0**-24, 3 * 2.0**-20, 1e-4, 0.3, 65504.0, -(2.0**-24)], dtype=torch.float16)
    assert_decomposes(lambda x: tuple(torch.frexp(x)), narrow, rtol=0.0)


@pytest.mark.parametrize("dim", [0, 1])
def test_scans(dim: int) -> None:
    for scan in (torch.cumsum, torch.cumprod, torch.logcumsumexp):
        assert_decomposes(lambda x, s=scan: s(x, dim), ROWS[::2], rtol=1e-4)
    for scan in (torch.cummax, torch.cummin):
        assert_decomposes(lambda x, s=scan: tuple(s(x, dim)), ROWS)


def test_medians_and_modes() -> None:
    for dim in (0, 1):
        assert_decomposes(lambda x, d=dim: x.nanmedian(d, keepdim=True).values, ROWS)
        assert_decomposes(lambda x, d=dim: x.median(d).values, ROWS)
        assert_decomposes(lambda x, d=dim: tuple(x.mode(d)), ROWS[::2])
    assert_decomposes(torch.median, ROWS[0])
    assert_decomposes(lambda x: tuple(x.mode(1)), torch.tensor([[NAN, NAN], [1.0, NAN]]))


def test_what_is_selected_keeps_its_sign() -> None:
    """A zero's is seen in its reciprocal."""
    zeros = torch.tensor([[-0.0, 3.0, -2.0], [0.0, 5.0, -1.0]])
    long = torch.cat([torch.arange(1.0, 100.0), torch.tensor([-0.0])])
    chosen: list[Callable[[Tensor], Tensor]] = [
        lambda x: x.sort(1).values,
        lambda x: x.median(1).values,
        lambda x: x.nanmedian(1).values,
        lambda x: x.kthvalue(2, 1).values,
        lambda x: x.topk(2, 1).values,
        lambda x: x.abs().neg().max(1).values,
        lambda x: torch.cat([x, -x], 1).mode(1).values,
    ]
    for select in chosen:
        assert_decomposes(lambda x, f=select: f(x).reciprocal(), zeros)
    assert_decomposes(lambda x: x.sort().values.reciprocal(), long)


@pytest.mark.parametrize("descending", [False, True])
def test_long_rows_are_sorted(descending: bool) -> None:
    row = (torch.arange(200) * 37 % 101).float()
    row[5], row[77], row[9] = NAN, NAN, -INF
    for each in (row, row.nan_to_num(-1.0).long()):
        values, places = selection.sort(each, 0, descending)
        expected = torch.sort(each, stable=True, descending=descending)
        torch.testing.assert_close((values, places), tuple(expected), equal_nan=True)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances(p: float) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(3, 4), torch.randn(5, 4)
    b[0] = a[0]  # Where rows are equal, the gradient is zero.
    _same_distances(p, a, b)
    # One number that is not finite in a row, next to a difference of zero, and its meeting with itself.
    b[1, 0], b[2, 1], b[3, 2], a[1, 0] = NAN, INF, -INF, INF
    a[0, 3], a[2, 3] = b[2, 3], b[1, 3]
    _same_distances(p, a, b)

    for other, factor in itertools.product(([1.0, 2.0], [1.0, 4.0], [3.0, 4.0]), (NAN, INF)):
        _same_distances(p, torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.0], other]), factor)


def _same_distances(p: float, a: Tensor, b: Tensor, factor: float = 1.0) -> None:
    cdist, pdist = aten.cdist.default, aten.pdist.default
    assert_same(lambda x, y: by_rule(cdist, x, y, p, None) * factor, lambda x, y: torch.cdist(x, y, p) * factor, a, b)
    assert_same(lambda x: by_rule(pdist, x, p) * factor, lambda x: torch.pdist(x, p) * factor, b)


def test_margins() -> None:
    torch.manual_seed(0)
    # Quarters, so that some classes just keep the margin.
    x, weight = torch.randint(-8, 9, (4, 5)) / 4, torch.rand(5)
    target, several = (
        torch.tensor([1, 0, 4, 2]),
        torch.tensor([[1, 3, -1, 0, 0], [-1] * 5, [4, 0, 1, 2, 3], [2, -1, 2, 2, 2]]),
    )
    for reduction in (0, 1, 2):
        _same_by_rule(aten.multi_margin_loss.default, x, target, 1, 0.5, weight, reduction)
        _same_by_rule(aten.multi_margin_loss.default, x, target, 2, 0.5, weight, reduction)
        _same_by_rule(aten.multilabel_margin_loss.default, x, several, reduction)


@pytest.mark.parametrize("factor", [NAN, INF])
def test_margins_by_gradients_that_are_not_finite(factor: float) -> None:
    x = torch.tensor([[-2.0, 0.0, 1.0], [0.5, 3.0, -1.0], [INF, 0.0, 1.0]])
    target, several = torch.tensor([2, 1, 1]), torch.tensor([[2, -1, 0], [1, 0, -1], [0, 1, -1]])
    for p in (1, 2):
        _same_by_rule(aten.multi_margin_loss.default, x, target, p, 0.5, factor=factor)
    _same_by_rule(aten.multilabel_margin_loss.default, x, several, factor=factor)


def _same_by_rule(target: Any, x: Tensor, *options: Any, factor: float = 1.0) -> None:
    assert_same(lambda each: by_rule(target, each, *options) * factor, lambda each: target(each, *options) * factor, x)


def test_a_leaky_unit_at_rest() -> None:
    rrelu, x = aten.rrelu.default, torch.linspace(-2.0, 2.0, 9)
    assert_same(lambda each: by_rule(rrelu, each, 0.1, 0.5), lambda each: rrelu(each, 0.1, 0.5), x)
    slopes = by_rule(rrelu, x, 0.1, 0.5, True)[:4] / x[:4]
    assert ((slopes >= 0.1) & (slopes < 0.5)).all()
