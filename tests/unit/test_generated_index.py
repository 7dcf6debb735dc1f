"""Expressions of places simplify to what they are."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.kernels.generated.index import Index, Quotient, Remainder, Variable, delinearise, linearise, variable

SIZES = st.sampled_from([1, 2, 3, 4, 6, 8])
STEPS = st.lists(st.tuples(st.sampled_from("+s*/%"), st.integers(0, 7)), max_size=8)
NUMBERS = (1, 2, 3, 4, 6, 8, -1, 5)


def value(index: Index, places: dict[str, int]) -> int:
    """What the expression is at these places, by a GPU's division: towards zero."""
    total = index.constant
    for atom, factor in index.terms:
        match atom:
            case Variable(name=name):
                total += factor * places[name]
            case Quotient(of=of, by=by):
                total += factor * int(value(of, places) / by)
            case Remainder(of=of, by=by):
                total += factor * int(math.fmod(value(of, places), by))
            case _:
                raise AssertionError("nothing is read from memory here")
    return total


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(SIZES, min_size=3, max_size=3), STEPS, st.integers(0, 500))
def test_simplified_expressions_keep_their_value(sizes: list[int], steps: list[tuple[str, int]], at: int) -> None:
    variables = [variable(name, size) for name, size in zip("abc", sizes, strict=True)]
    places = {name: at // (i + 1) % size for i, (name, size) in enumerate(zip("abc", sizes, strict=True))}
    index, exact = variables[0], places["a"]
    for kind, choice in steps:
        number = NUMBERS[choice]
        match kind:
            case "+":
                index, exact = index + variables[choice % 3], exact + places["abc"[choice % 3]]
            case "s":
                index, exact = index + number, exact + number
            case "*":
                index, exact = index * number, exact * number
            case "/":
                index, exact = index // abs(number), exact // abs(number)
            case _:
                index, exact = index % abs(number), exact % abs(number)
    assert value(index, places) == exact
    assert index.bounds[0] <= exact <= index.bounds[1]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(SIZES, min_size=1, max_size=4))
def test_a_place_made_flat_and_cut_up_again_is_the_same(shape: list[int]) -> None:
    flat = variable("i", math.prod(shape))
    assert linearise(delinearise(flat, shape), shape) == flat
    places = tuple(variable(f"p{i}", size) for i, size in enumerate(shape))
    assert delinearise(linearise(places, shape), shape) == places


def test_terms_that_overlap_are_not_taken_apart() -> None:
    index = (variable("a", 6) * 4 + variable("b", 8) * 3) // 8
    remainder = (variable("a", 6) * 4 + variable("b", 8) * 3) % 8
    for places in ({"a": a, "b": b} for a in range(6) for b in range(8)):
        exact = 4 * places["a"] + 3 * places["b"]
        assert (value(index, places), value(remainder, places)) == (exact // 8, exact % 8)


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
