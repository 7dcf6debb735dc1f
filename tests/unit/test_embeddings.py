"""Rows of tables and bags of them mean what PyTorch means, with the table's gradient."""

from __future__ import annotations

import itertools

import pytest
import torch

from dmc.errors import ImportFailure
from tests.decomposed import assert_same, by_rule

bags, rows = torch.ops.aten.embedding_bag.padding_idx, torch.ops.aten.embedding.default
# The second bag is empty, the last row of the table is in two of the others.
INDEX, OFFSETS = torch.tensor([1, 3, 5, 0, 2, 2, 7, 8, 8]), torch.tensor([0, 3, 3, 7, 9])


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["sum", "mean", "max"])
def test_bags(mode: int) -> None:
    torch.manual_seed(0)
    table = torch.randn(9, 4)
    table[3] = table[5]  # The first of equal ones has the gradient.
    for padding, last in itertools.product((None, 2, -1), (False, True)):
        options = (INDEX, OFFSETS if last else OFFSETS[:-1], False, mode, False, None, last, padding)
        assert_same(lambda x, o=options: by_rule(bags, x, *o)[0], lambda x, o=options: bags(x, *o)[0], table)


def test_weighted_bags_without_the_last_row() -> None:
    torch.manual_seed(0)
    options = (INDEX, OFFSETS, False, 0, False)
    assert_same(
        lambda x, w: by_rule(bags, x, *options, w, True, -1)[0],
        lambda x, w: bags(x, *options, w, True, -1)[0],
        torch.randn(9, 4),
        torch.randn(9),
    )


def test_gradients_of_frequent_rows_are_shared() -> None:
    torch.manual_seed(0)
    options = (INDEX.view(3, 3), 2, True)
    assert_same(lambda x: by_rule(rows, x, *options), lambda x: rows(x, *options), torch.randn(9, 4))
    with pytest.raises(ImportFailure, match="an embedding bag with scale_grad_by_freq=True"):
        by_rule(bags, torch.randn(9, 4), INDEX, OFFSETS, True, 0, False, None, True, None)
