"""Reductions of segments mean what PyTorch means; some segments are empty."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.decomposed import assert_same, by_rule

reduction = torch.ops.aten.segment_reduce.default
CASES = [((5,), 0, [0, 1, 2, 2]), ((5, 3), 0, [2, 0, 3, 0]), ((2, 5, 2), 1, [[2, 0, 3, 0], [1, 1, 1, 2]])]


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "prod"])
def test_segments(how: str) -> None:
    torch.manual_seed(0)
    for (shape, axis, given), initial in itertools.product(CASES, (None, 1, 2.5)):
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
