"""Writes at computed places, as comparisons and reductions, mean what PyTorch means by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from dmc.errors import ImportFailure
from dmc.importer.decompositions import places
from tests.decomposed import assert_same, by_rule

aten = torch.ops.aten
torch.manual_seed(0)
X, Y, ROW = torch.randn(4, 5, 3), torch.randn(2, 3), torch.randn(3)
ROWS, COLUMNS = torch.tensor([3, -1, 0]), torch.tensor([4, 4, -5])
MASK = X[..., 0] > 0.0
SOME = torch.tensor([[0, 2, 2], [3, 3, 1]])


def _put(*indices: Tensor | None, accumulate: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, values: aten.index_put.default(x, list(indices), values, accumulate)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate: bool) -> None:
    # Where two values go to one place, the last one wins.
    cases: list[tuple[tuple[Tensor | None, ...], Tensor]] = [
        ((ROWS,), torch.randn(3, 5, 3)),
        ((ROWS, COLUMNS), torch.randn(3, 3)),
        ((None, COLUMNS), torch.randn(4, 3, 3)),
        ((None, None, SOME % 3), torch.randn(4, 5, 2, 3)),
        ((ROWS, None, torch.tensor([[0], [2]])), torch.randn(2, 3, 5)),
        ((MASK,), torch.tensor(7.0)),
        ((MASK,), torch.randn(int(MASK.sum()), 3)),
        ((None, MASK[0]), torch.randn(4, int(MASK[0].sum()), 3)),
        ((X > 0.0,), torch.randn(int((X > 0.0).sum()))),
    ]
    for indices, values in cases:
        put = _put(*indices, accumulate=accumulate)
        _same_both(put, X, values)
    # Indices apart, after a dimension without one: theirs comes first.
    put = _put(None, ROWS, None, ROWS % 2, accumulate=accumulate)
    _same_both(put, torch.randn(2, 4, 3, 2), torch.randn(3, 2, 3))
    with pytest.raises(ImportFailure, match="at a mask and at indices together"):
        places.OWN[aten.index_put.default](X, [MASK[:, 0], None, ROWS[:1]], torch.tensor(7.0), accumulate)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_rows(dim: int) -> None:
    index = torch.tensor([2, 0, 2])
    source = torch.randn([3 if each == dim % 3 else size for each, size in enumerate(X.shape)])
    _same_both(lambda x, y: torch.index_add(x, dim, index, y, alpha=3), X, source)
    _same_both(lambda x, y: torch.index_copy(x, dim, index, y), X, source)
    for reduce in ("prod", "mean", "amax", "amin"):
        _same_both(lambda x, y, r=reduce: x.index_reduce(dim, index, y, r, include_self=False), X, source)
    _same_both(lambda x: x.index_fill(dim, index, 2.0), X)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    _same_both(lambda x, y: x.scatter_reduce(0, SOME, y, reduce, include_self=include_self), X[..., 0], Y)


def test_scatter_into_a_part() -> None:
    """The index is smaller than the target along another dimension, and than its source."""
    for dim in (0, 1):
        index = SOME[:1] if dim else SOME
        _same_both(lambda x, y, d=dim, i=index: x.scatter(d, i, y), X[..., 0], Y[: len(index)])
        _same_both(lambda x, y, d=dim, i=index: x.scatter_add(d, i, y), X[..., 0], Y[: len(index)])
        # PyTorch does not differentiate a source of which only a part is read.
        _same_both(lambda x, d=dim, i=index: x.scatter(d, i, Y), X[..., 0])
        _same_both(lambda x, d=dim, i=index: x.scatter_add(d, i, Y), X[..., 0])
        _same_both(lambda x, d=dim, i=index: x.scatter(d, i, 3.0), X[..., 0])
    many = torch.arange(100) * 7 % 40
    _same_both(lambda x, y: x.scatter(0, many, y), torch.randn(50), torch.randn(100))


def test_masked_scatter_and_put() -> None:
    _same_both(lambda x, y: x.masked_scatter(X > 0.0, y), X, torch.randn(4, 5, 4))
    for accumulate in (False, True):
        _same_both(lambda x, y, a=accumulate: x.put(SOME * 7, y, a), X, Y)


def test_views_of_memory() -> None:
    # Without a gradient, which writes through the view, as functionalisation undoes.
    for each in (X, X.mT, X.permute(2, 0, 1)):
        own = places.OWN[aten.as_strided.default](each, (3, 4), (2, 5), 1)
        torch.testing.assert_close(own, each.as_strided((3, 4), (2, 5), 1))
        own = places.OWN[aten.as_strided_scatter.default](each, Y, (2, 3), (4, 9), 2)
        torch.testing.assert_close(own, torch.as_strided_scatter(each, Y, (2, 3), (4, 9), 2))
        assert own.stride() == each.stride()
        own = places.OWN[aten.new_empty_strided.default](Y, each.shape, each.stride())
        assert (own.shape, own.stride()) == (each.shape, each.stride())
    # One channel, as the last.
    image = torch.randn(30).as_strided((2, 1, 5, 3), (15, 1, 3, 1))
    own = places.OWN[aten.as_strided.default](image, (3, 4), (2, 5), 1)
    torch.testing.assert_close(own, image.as_strided((3, 4), (2, 5), 1))
    # Elsewhere in its memory, and with gaps.
    for each in (X[1:], X.expand(2, *X.shape), X[:, :, ::2].clone(memory_format=torch.preserve_format)[..., 1:]):
        assert places.OWN[aten.as_strided.default](each, (2, 1), (2, 5), 1) is NotImplemented
    for offset in (-1, 0, 2):
        size = X[..., 0].diagonal(offset).shape[0]
        _same_both(lambda x, y, o=offset: torch.diagonal_scatter(x, y, o), X[..., 0], torch.randn(size))


def test_indices_anywhere() -> None:
    """Read at indices of dimensions after the first, which stand together or apart; of a number, and by one."""
    for x, index in ((torch.tensor(2.0), torch.tensor([0])), (ROW, torch.tensor(1))):
        _same_both(lambda x, i=index: x.index_select(0, i), x)
    for indices in ([None, COLUMNS], [None, ROWS, SOME[:1] % 3], [ROWS, None, ROWS % 3]):
        assert_same(lambda x, i=indices: by_rule(aten.index.Tensor, x, i), lambda x, i=indices: aten.index(x, i), X)
    assert by_rule(aten.index.Tensor, X, [None, torch.tensor([9])]).isnan().all()


def _same_both(function: Callable[..., Any], *tensors: Tensor) -> None:
    assert_same(function, function, *tensors)
