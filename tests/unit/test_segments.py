"""Reductions of segments mean what PyTorch means; some segments are empty."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from tests.decomposed import assert_same, by_rule

NAN, INF = math.nan, math.inf
reduction = torch.ops.aten.segment_reduce.default
CASES = [((5,), 0, [0, 1, 2, 2]), ((5, 3), 0, [2, 0, 3, 0]), ((2, 5, 2), 1, [[2, 0, 3, 0], [1, 1, 1, 2]])]


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "prod"])
def test_segments(how: str) -> None:
    torch.manual_seed(0)
    for (shape, axis, given), initial in itertools.product(CASES, (None, 1, 2.5, NAN)):
        x, lengths = torch.randn(shape), torch.tensor(given)
        # As large as an initial value, and a product of zero.
        x.view(-1)[1], x.view(-1)[2] = 1.0, 0.0
        offsets = torch.cat([torch.zeros_like(lengths.narrow(axis, 0, 1)), lengths], axis).cumsum(axis)
        for place in ({"lengths": lengths}, {"offsets": offsets}):
            options = {"axis": axis, "unsafe": True, "initial": initial, **place}
            assert_same(
                lambda each, o=options: by_rule(reduction, each, how, **o),
                lambda each, o=options: reduction(each, how, **o),
                x,
            )


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min"])
def test_equal_elements_and_what_is_not_finite(how: str) -> None:
    x = torch.tensor([1.0, 2.0, 2.0, 1.0, NAN, 1.0, NAN, 3.0, INF, -INF])
    options = {"lengths": torch.tensor([4, 0, 3, 1, 2]), "unsafe": True}
    for initial, sign in itertools.product((None, 2.0, NAN), (1.0, -1.0, NAN)):
        assert_same(
            lambda each, s=sign, i=initial: by_rule(reduction, each, how, **options, initial=i) * s,
            lambda each, s=sign, i=initial: reduction(each, how, **options, initial=i) * s,
            x,
        )
