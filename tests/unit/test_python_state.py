"""State that a forward pass keeps in Python, wherever Python lets it: in slots, behind `__dict__`, in iterators."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dmc.errors import ImportFailure
from tests.interpreted import InterpretedStep, assert_trains_as_eager, fingerprint

WIDTH = 6


class Slotted:
    """Keeps its attributes in slots; `unset` has no value yet."""

    __slots__ = ("n", "plain", "unset")

    def __init__(self) -> None:
        self.n, self.plain = 0, torch.ones(WIDTH)


class Inner(nn.Module):
    """What `forward_of` may change, below the model, so that it has a path."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.slotted, self.calls = Slotted(), 0
        self.held: Any = None


class Model(nn.Module):
    """Calls `forward_of` with its inner module."""

    def __init__(self, forward_of: Any) -> None:
        super().__init__()
        self.inner = Inner()
        self.forward_of = forward_of

    def forward(self, x: Tensor) -> Tensor:
        """f32[4, WIDTH] → f32[4, WIDTH]."""
        return self.forward_of(self.inner, x)


def _batch() -> tuple[Tensor, Tensor]:
    return torch.linspace(-1, 1, 4 * WIDTH).view(4, WIDTH), torch.zeros(4, WIDTH)


def _slot(m: Inner, x: Tensor) -> Tensor:
    m.slotted.n += 1
    return m.linear(x) / m.slotted.n


def _tensor_in_a_slot(m: Inner, x: Tensor) -> Tensor:
    m.slotted.plain = m.slotted.plain + 1
    return m.linear(x) * m.slotted.plain


def _unset_slot(m: Inner, x: Tensor) -> Tensor:
    m.slotted.unset = getattr(m.slotted, "unset", 0) + 1
    return m.linear(x) / m.slotted.unset


def _by_vars(m: Inner, x: Tensor) -> Tensor:
    m.calls = vars(m)["calls"] + 1
    return m.linear(x) / m.calls


def _made_if_missing(m: Inner, x: Tensor) -> Tensor:
    if "cache" not in m.__dict__:
        m.cache = torch.ones(WIDTH)
    return m.linear(x) * m.cache


def _other_first_call(m: Inner, x: Tensor) -> Tensor:
    first, m.calls = m.calls == 0, 1
    return m.linear(x) * (2.0 if first else 1.0)


def _counts_to_two(m: Inner, x: Tensor) -> Tensor:
    m.slotted.n = min(m.slotted.n + 1, 2)
    return m.linear(x)


REFUSED: dict[str, tuple[Any, str]] = {
    "other first call": (_other_first_call, r"'inner\.calls' changes from 0 to 1"),
    "counts to two": (_counts_to_two, r"'inner\.slotted\.n' changes from 0 to 1"),
    "slot": (_slot, r"'inner\.slotted\.n' changes from 0 to 1"),
    "tensor in a slot": (_tensor_in_a_slot, r"'inner\.slotted\.plain' is changed in `forward`"),
    "unset slot": (_unset_slot, r"'inner\.slotted\.unset' is created"),
    "by vars": (_by_vars, r"'inner\.calls' changes from 0 to 1"),
    "made if missing": (_made_if_missing, r"'inner\.cache' is created"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_state_in_python_is_refused_by_name(context: Any, name: str) -> None:
    forward, fact = REFUSED[name]
    model = Model(forward)
    before, slotted = fingerprint(model), model.inner.slotted
    with pytest.raises(ImportFailure, match=fact) as caught:
        InterpretedStep(context, model, nn.functional.mse_loss, _batch())
    assert caught.value.place and caught.value.hint
    assert fingerprint(model) == before, "a refusal changed the user's model"
    assert slotted.n == 0 and not hasattr(slotted, "unset") and slotted.plain.sum() == WIDTH


def _scratch(m: Inner, x: Tensor) -> Tensor:
    m.held = m.linear(x)
    return vars(m)["held"] * 2


def test_what_is_written_before_dict_is_read_is_scratch(context: Any) -> None:
    assert_trains_as_eager(context, Model(_scratch), nn.functional.mse_loss, [_batch()])


def _kind_found_out(m: Inner, x: Tensor) -> Tensor:
    """As classifiers of `transformers` note the kind of their problem in their configuration."""
    if not hasattr(m.slotted, "unset"):
        m.slotted.unset = "regression"
    if m.held is None:
        m.held = 3
    return m.linear(x) * (m.held if m.slotted.unset == "regression" else 1)


def test_a_constant_that_the_first_call_sets_for_good(context: Any) -> None:
    model = Model(_kind_found_out)
    assert_trains_as_eager(context, model, nn.functional.mse_loss, [_batch(), _batch()])
    other = Model(_kind_found_out)
    InterpretedStep(context, other, nn.functional.mse_loss, _batch())
    assert other.inner.held is None and not hasattr(other.inner.slotted, "unset"), "the user's model is as it was"


def _divided_by_next(m: Inner, x: Tensor) -> Tensor:
    return m.linear(x) / next(m.held)


def _numbers() -> Generator[int]:
    number = 0
    while True:
        number += 1
        yield number


@pytest.mark.parametrize("elements", [itertools.count(1), _numbers(), iter([1, 2, 3, 4])])
def test_iterators_are_refused_by_name(context: Any, elements: Iterator[int]) -> None:
    model = Model(_divided_by_next)
    model.inner.held = elements
    with pytest.raises(ImportFailure, match=type(elements).__name__) as caught:
        InterpretedStep(context, model, nn.functional.mse_loss, _batch())
    assert caught.value.place == "inner.held" and caught.value.hint
    assert next(elements) == 1, "a refusal took an element"


class Numbers:
    """An iterator that is written in Python."""

    def __init__(self) -> None:
        self.number = 0

    def __next__(self) -> int:
        self.number += 1
        return self.number


def test_iterators_written_in_python_are_followed(context: Any) -> None:
    model = Model(_divided_by_next)
    model.inner.held = Numbers()
    with pytest.raises(ImportFailure, match=r"'inner\.held\.number' changes from 0 to 1"):
        InterpretedStep(context, model, nn.functional.mse_loss, _batch())


def test_defaults_of_the_loss_are_followed(context: Any) -> None:
    def loss(output: Tensor, target: Tensor, calls: list[int] = [0]) -> Tensor:  # noqa: B006
        calls[0] += 1
        return nn.functional.mse_loss(output, target) / calls[0]

    with pytest.raises(ImportFailure, match="changes from 0 to 1"):
        InterpretedStep(context, Model(lambda m, x: m.linear(x)), loss, _batch())
