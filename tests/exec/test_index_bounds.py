"""An index out of range is refused before a step, as in PyTorch, and the state is unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.errors import InputError
from dmc.importer.capture.capture import capture
from dmc.importer.capture.indices import index_bounds, unchecked
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


def _set(x: Tensor, index: Tensor) -> Tensor:
    table = torch.zeros(4, 3)
    table[index] = x
    return table


def _zeros() -> Tensor:
    return torch.zeros(4, 3)


ORDER = torch.tensor([3, 1, 0, 2])
# (weight [4, 3], x [5, 3], index [5]) -> what the loss is made of; whether -1 is an index.
READERS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], bool]] = {
    "index": (lambda w, x, i: w[i] + x, True),
    "index_select": (lambda w, x, i: w.index_select(0, i) + x, False),
    "gather": (lambda w, x, i: w.gather(0, i[:, None].expand(-1, 3)) + x, False),
    "nll by gather": (lambda w, x, i: (x @ w.T).log_softmax(-1).gather(1, i[:, None]), False),
    "of integers": (lambda w, x, i: w * ORDER[i].float().sum(), True),
    "gather of integers": (lambda w, x, i: w * ORDER.gather(0, i).float().sum(), False),
    "index_add": (lambda w, x, i: _zeros().index_add(0, i, x) + w, False),
    "index_copy": (lambda w, x, i: _zeros().index_copy(0, i, x) + w, False),
    "index_fill": (lambda w, x, i: w.index_fill(0, i[4:], 1.0), True),
    "index_put": (lambda w, x, i: _zeros().index_put((i,), x, accumulate=True) + w, True),
    "assignment": (lambda w, x, i: _set(x, i) + w, True),
    "put": (lambda w, x, i: torch.zeros(4).put(i, x[:, 0])[:, None] + w, True),
    "scatter": (lambda w, x, i: _zeros().scatter(0, i[:, None].expand(-1, 3), x) + w, False),
    "scatter a number": (lambda w, x, i: _zeros().scatter(0, i[:, None].expand(-1, 3), 2.0) + w, False),
    "scatter_add": (lambda w, x, i: _zeros().scatter_add(0, i[:, None].expand(-1, 3), x) + w, False),
    "scatter_reduce": (lambda w, x, i: _zeros().scatter_reduce(0, i[:, None].expand(-1, 3), x, "amax") + w, False),
    "one_hot": (lambda w, x, i: functional.one_hot(i, 4).float() @ w + x, False),
    "bincount": (lambda w, x, i: w * torch.bincount(i, minlength=4)[:, None], False),
    "weighted bincount": (lambda w, x, i: w * i.bincount(x[:, 0] * w.sum(), 4)[:, None], False),
    "margins": (lambda w, x, i: functional.multi_margin_loss(x @ w.T, i), False),
    "embedding_bag": (lambda w, x, i: functional.embedding_bag(i[:, None], w) + x, False),
}


class Reader(nn.Module):
    """A parameter, and one of `READERS`, of indices to which a number is added."""

    def __init__(self, name: str, added: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(12.0).view(4, 3) / 7)
        self.read, self.added = READERS[name][0], added

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        """x f32[5, 3], index int64[5] → the loss."""
        index = index if self.added is None else index + self.added
        return self.read(self.weight, x, index).square().mean()


X, INDEX = torch.arange(15.0).view(5, 3).sin(), torch.tensor([0, 1, 2, 3, 1])


def _at_the_end(value: int) -> Tensor:
    return torch.cat([INDEX[:4], torch.tensor([value])])


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("added", [None, 0], ids=["given", "computed"])
def test_what_eager_refuses_gives_no_number(name: str, added: int | None) -> None:
    model = Reader(name, added)
    step = dmc.compile(model, optimizer=dmc.optim.SGD(lr=0.0), example=(X, INDEX), verify=False)
    for value in (2, -1, 4, -5):
        index = _at_the_end(value)
        if value == 2 or (value == -1 and READERS[name][1]):
            torch.testing.assert_close(float(step(X, index)), float(model(X, index)), rtol=1e-5, atol=1e-6)
            continue
        with pytest.raises((IndexError, RuntimeError)):
            model(X, index)
        # One that is assigned is followed by export through a copy.
        if added is None and name != "assignment":
            with pytest.raises(InputError, match=f"has {value} at \\[4\\], out of the range of"):
                step(X, index)
        else:
            assert math.isnan(float(step(X, index)))
    step.close()


def _with_first_changed(index: Tensor) -> Tensor:
    index[:1].add_(9)
    return index


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda x: x.topk(2).indices[:, 0], True),
        (lambda x: x.argmax(-1), True),
        (lambda x: x.sort(-1).indices[:, 0].view(5).contiguous(), True),
        (lambda x: x.max(-1).indices, True),
        (lambda x: (3 * x).long() % 4, True),
        (lambda x: (3 * x).long().clamp(0, 3), True),
        (lambda x: torch.arange(5) % 4, True),
        (lambda x: x.argmax(), False),
        (lambda x: (3 * x).long() % 5, False),
        (lambda x: (3 * x).long().clamp(-1, 3), False),
        (lambda x: (3 * x).long().clamp(max=3), False),
        (lambda x: x.argmax(-1) + 1, False),
        (lambda x: _with_first_changed(x.argmax(-1)), False),
    ],
)
def test_what_cannot_be_out_of_range_is_not_checked(compute: Callable[[Tensor], Tensor], expected: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return (functional.one_hot(compute(x * self.weight[:3]), 4) * self.weight).sum()

    captured = capture(Model(), None, (X,), None)
    assert (not unchecked(captured.graph, captured.batch, 1)) == expected


def test_an_index_may_be_one_number_and_one_for_many_columns() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.arange(4.0))

        def forward(self, row: Tensor, columns: Tensor) -> Tensor:
            wide = columns[:, None].expand(-1, 1000)
            return self.weight.take(row) * self.weight[:, None].expand(-1, 1000).gather(0, wide).sum()

    model = Model()
    example = torch.tensor(1), torch.tensor([0, 3])
    step = dmc.compile(model, optimizer=dmc.optim.SGD(lr=0.0), example=example)
    assert float(step(torch.tensor(-2), torch.tensor([1, 2]))) == float(model(torch.tensor(-2), torch.tensor([1, 2])))
    with pytest.raises(InputError, match=r"(?s)input .row.: has 4 at \[\].*indices are -4 to 3"):
        step(torch.tensor(4), example[1])
    with pytest.raises(InputError, match=r"(?s)input .columns.: has 4 at \[1\].*indices are 0 to 3"):
        step(example[0], torch.tensor([0, 4]))
    step.close()
