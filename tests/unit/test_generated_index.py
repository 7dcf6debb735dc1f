"""Expressions of places simplify to what they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.kernels.generated.index import Index, Quotient, Remainder, Variable, delinearise, linearise, variable

SIZES = st.sampled_from([1, 2, 3, 4, 6, 8])
NUMBERS = st.sampled_from([1, 2, 3, 4, 6, 8, -1, -3])
STEPS = st.lists(st.tuples(st.sampled_from("+s*/%"), NUMBERS, st.integers(0, 9)), min_size=3, max_size=8)


def value(index: Index, places: dict[str, Any]) -> Any:
    """What the expression is at these places, integers or arrays of such, by a GPU's division: towards zero."""
    total: Any = index.constant
    for atom, factor in index.terms:
        match atom:
            case Variable(name=name):
                total = total + factor * places[name]
            case Quotient(of=of, by=by):
                exact = value(of, places)
                total = total + factor * ((exact - np.fmod(exact, by)) // by)
            case Remainder(of=of, by=by):
                total = total + factor * np.fmod(value(of, places), by)
            case _:
                raise AssertionError("nothing is read from memory here")
    return total


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(SIZES, min_size=3, max_size=3), STEPS)
def test_simplified_expressions_keep_their_value(sizes: list[int], steps: list[tuple[str, int, int]]) -> None:
    places = dict(zip("abc", np.indices(sizes), strict=True))
    # Each is made of the one before and, in a sum, of any earlier one, as places that are put together again are.
    known = [(variable(name, size), places[name]) for name, size in zip("abc", sizes, strict=True)]
    for kind, number, earlier in steps:
        index, exact = known[-1]
        match kind:
            case "+":
                other, its = known[earlier % len(known)]
                index, exact = index + other * number, exact + its * number
            case "s":
                index, exact = index + number, exact + number
            case "*":
                index, exact = index * number, exact * number
            case "/":
                index, exact = index // abs(number), exact // abs(number)
            case _:
                index, exact = index % abs(number), exact % abs(number)
        assert np.array_equal(np.broadcast_to(value(index, places), exact.shape), exact)
        low, high = index.bounds
        assert low <= exact.min() and exact.max() <= high
        known.append((index, exact))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(SIZES, min_size=1, max_size=4))
def test_a_place_made_flat_and_cut_up_again_is_the_same(shape: list[int]) -> None:
    flat = variable("i", math.prod(shape))
    assert linearise(delinearise(flat, shape), shape) == flat
    places = tuple(variable(f"p{i}", size) for i, size in enumerate(shape))
    assert delinearise(linearise(places, shape), shape) == places


def test_terms_that_overlap_are_not_taken_apart() -> None:
    for factor, size in ((3, 8), (-1, 4)):
        index = variable("a", 6) * 4 + variable("b", size) * factor
        places = dict(zip("ab", np.indices((6, size)), strict=True))
        exact = 4 * places["a"] + factor * places["b"]
        assert np.array_equal(value(index // 8, places), exact // 8)
        assert np.array_equal(value(index % 8, places), exact % 8)


def test_parts_of_different_numbers_are_not_put_together() -> None:
    a, b = variable("a", 8), variable("b", 8)
    places = dict(zip("ab", np.indices((8, 8)), strict=True))
    i, j = places["a"], places["b"]
    assert np.array_equal(value(a // 4 * 4 + b % 4, places), i // 4 * 4 + j % 4)
    assert np.array_equal(value(a // 4 * 8 + a % 4, places), i // 4 * 8 + i % 4)
    assert np.array_equal(value(a // 2 % 2 * 2 + b % 2, places), i // 2 % 2 * 2 + j % 2)


def test_what_becomes_negative_is_divided_as_a_gpu_divides() -> None:
    # A row of 9 backwards: of its place the remainder of 5 is that of a smaller number, which is negative at times.
    backwards = variable("a", 4) * 9 + variable("b", 9) * -1 + 8
    difference = variable("a", 4) + variable("b", 9) * -1
    for places in ({"a": a, "b": b} for a in range(4) for b in range(9)):
        for index, exact in (
            (backwards, 9 * places["a"] + 8 - places["b"]),
            (difference, places["a"] - places["b"]),
        ):
            assert (value(index // 5, places), value(index % 5, places)) == (exact // 5, exact % 5)
            assert value((index // 2 % 3 + 1) // 2, places) == (exact // 2 % 3 + 1) // 2
