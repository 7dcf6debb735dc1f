"""Transpositions are classified by what they move, and two compose into one: against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.proof.transpositions import Transposition, composed, joined

SHAPES = ([4, 6], [2, 3, 4], [3, 8], [1, 2, 2, 6], [24], [2, 2, 2, 3], [6, 1, 4])


def apply(each: Transposition, memory: np.ndarray) -> np.ndarray:
    """The elements behind a transposition."""
    shape, order = each
    return memory.reshape(shape).transpose(order).ravel() if shape else memory


def drawn(random: Any) -> Transposition:
    """A transposition of 24 elements."""
    shape = random.choice(SHAPES)
    return tuple(shape), tuple(random.sample(range(len(shape)), len(shape)))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_two_are_one(random: Any) -> None:
    memory, first, second = np.arange(24), drawn(random), drawn(random)
    one, two = joined(*first), joined(*second)
    np.testing.assert_array_equal(apply(one, memory), apply(first, memory))
    wanted = apply(second, apply(first, memory))
    both = composed(one, two) if one[0] and two[0] else None
    if both is not None:
        np.testing.assert_array_equal(apply(both, memory), wanted)
        assert bool(both[0]) == bool((wanted != memory).any()), "what moves nothing is none"


def test_what_does_not_fit_stays_two() -> None:
    assert composed(((6, 4), (1, 0)), ((8, 3), (1, 0))) is not None
    assert composed(((4, 6), (1, 0)), ((4, 6), (1, 0))) is None
    assert composed(((4, 6), (1, 0)), ((6, 4), (1, 0))) == ((), ())
