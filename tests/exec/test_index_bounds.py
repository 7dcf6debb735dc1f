"""An index out of range is refused before a step, as in PyTorch, and the state is unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.errors import InputError
from dmc.importer.capture.capture import capture
from dmc.importer.capture.indices import index_bounds
from tests.compiled import assert_same_bits

ROWS, LENGTH = 7, 4


class Language(nn.Module):
    """Logits of each token; with labels the loss as transformers have it: each token predicts the next."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(ROWS, 4), nn.Embedding(LENGTH, 4)
        self.head = nn.Linear(4, ROWS)

    def forward(self, ids: Tensor, labels: Tensor | None = None) -> Tensor:
        """int64[B, LENGTH] → logits [B, LENGTH, ROWS], or the loss."""
        logits = self.head(self.tokens(ids) + self.places(torch.arange(LENGTH)))
        if labels is None:
            return logits
        following = functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return functional.cross_entropy(logits.view(-1, ROWS), following.view(-1), ignore_index=-100)


def _tokens(rows: int = 2) -> Tensor:
    return torch.arange(rows * LENGTH).view(rows, LENGTH) % ROWS


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(0, 1))


def _with(tokens: Tensor, place: tuple[int, int], value: int) -> Tensor:
    tokens = tokens.clone()
    tokens[place] = value
    return tokens


def test_an_index_out_of_range_leaves_the_state() -> None:
    step = dmc.compile(Language(), loss=_loss, optimizer=dmc.optim.SGD(lr=0.1), example=(_tokens(), _tokens()))
    before = step.state_dict()
    for value in (ROWS, -1, 1 << 40):
        with pytest.raises(InputError, match=rf"input 'ids': has {value} at \[1, 2\].*the embedding.*module 'tokens'"):
            step(_with(_tokens(), (1, 2), value), _tokens())
        with pytest.raises(InputError, match=rf"input 'targets': has {value} at \[0, 3\].*classes of the loss"):
            step(_tokens(), _with(_tokens(), (0, 3), value))
    assert_same_bits(step.state_dict(), before)
    assert float(step(_tokens(), _with(_tokens(), (0, 3), -100))) > 0.0
    step.close()


def _bounds(batch: Any, accumulate: int = 1) -> dict[str, tuple[Any, ...]]:
    captured = capture(Language(), None, batch, None)
    found = index_bounds(captured.graph, captured.batch, accumulate)
    return {bound.input: (bound.size, bound.ignored, bound.box) for bound in found}


def test_what_is_read_is_followed_through_views_and_slices() -> None:
    # Nothing reads the first label of a row.
    batch = {"ids": _tokens(), "labels": _tokens()}
    assert _bounds(batch) == {"ids": (ROWS, None, ((0, 2), (0, LENGTH))), "labels": (ROWS, -100, ((0, 2), (1, LENGTH)))}
    assert _bounds(batch, accumulate=3)["labels"] == (ROWS, -100, ((0, 6), (1, LENGTH)))


def _masked(ids: Tensor) -> Tensor:
    ids = ids.clone()
    ids[:, 1:3] = 0
    return ids


class Computed(nn.Module):
    """Reads indices that are computed."""

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.tokens, self.compute = nn.Embedding(ROWS, 4), compute

    def forward(self, ids: Tensor) -> Tensor:
        """int64[B, LENGTH] → the loss."""
        return self.tokens(self.compute(ids)).sum()


def test_of_one_micro_batch_it_is_known_what_is_read_of_all() -> None:
    captured = capture(Computed(lambda ids: ids[:1]), None, {"ids": _tokens()}, None)
    (bound,) = index_bounds(captured.graph, captured.batch, 1)
    assert bound.box == ((0, 1), (0, LENGTH))
    # The first row of each micro-batch: no box of the whole.
    assert index_bounds(captured.graph, captured.batch, 2) == ()


def test_targets_that_are_probabilities_are_no_indices() -> None:
    soft = functional.one_hot(_tokens(), ROWS).float()
    for targets, inputs in ((soft, {"ids"}), (_tokens(), {"ids", "targets"})):
        captured = capture(Language(), _loss, (_tokens(), targets), None)
        assert {bound.input for bound in index_bounds(captured.graph, captured.batch, 1)} == inputs


@pytest.mark.parametrize(
    "compute",
    [lambda ids: ids % ROWS, lambda ids: ids.bool().long(), lambda ids: ids.to(torch.int8).long(), _masked],
    ids=["remainder", "boolean", "int8", "written"],
)
def test_what_is_computed_is_not_bounded(compute: Callable[[Tensor], Tensor]) -> None:
    captured = capture(Computed(compute), None, {"ids": _tokens()}, None)
    assert index_bounds(captured.graph, captured.batch, 1) == ()


@pytest.mark.parametrize("dtypes", [(torch.int32, torch.int64), (torch.int64, torch.int32)])
def test_converted_integers_are_the_same_indices(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    given, read = dtypes

    def following(ids: Tensor) -> Tensor:
        return functional.pad(ids.clone().to(read), (0, 1))[..., 1:]

    captured = capture(Computed(following), None, {"ids": _tokens().to(given)}, None)
    (bound,) = index_bounds(captured.graph, captured.batch, 1)
    assert bound.box == ((0, 2), (1, LENGTH))
