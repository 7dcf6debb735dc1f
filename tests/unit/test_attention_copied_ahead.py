"""Attention in Gluon, on the CPU, against its float64 reference, with what would be a race on a GPU as an assertion."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.kernel_cases import attention_of
from dmc.kernels.attention_launches import is_copied_ahead
from dmc.kernels.implementation import Candidate, implementation_of
from dmc.kernels.problem import Problem, TensorType, problem
from dmc.kernels.recipe import Recipe
from dmc.kernels.references.draws import Draws
from tests.interpreted_kernels import FEW, assert_right
from tests.triton_interpreter import interpret

DTYPES = ("bf16", "f16")


def both(
    dtype: str,
    rows: int,
    columns: int,
    width: int = 64,
    heads: tuple[int, int] = (2, 1),
    causal: bool = False,
    p: float = 0.0,
) -> list[Problem]:
    """Both passes of two batches."""
    q = TensorType(dtype, (2, heads[0], rows, width))
    k = TensorType(dtype, (2, heads[1], columns, width))
    return list(attention_of(q, k, q, p, causal).values())


def ahead(wanted: Problem) -> list[Candidate]:
    """The candidates in Gluon."""
    return [each for each in implementation_of(wanted).candidates(wanted) if each.get("ahead", 0)]


@FEW
@given(
    st.sampled_from(DTYPES),
    st.integers(1, 200),
    st.integers(1, 200),
    st.sampled_from([40, 64]),
    st.sampled_from([(1, 1), (4, 2)]),
    st.booleans(),
    st.sampled_from([0.0, 0.25, 0.03, 0.75]),
)
def test_every_candidate(
    dtype: str, rows: int, columns: int, width: int, heads: tuple[int, int], causal: bool, p: float
) -> None:
    for wanted in both(dtype, rows, columns, width, heads, causal=causal, p=p):
        candidates = ahead(wanted)
        assert candidates
        for each in candidates:
            assert_right(wanted, None, each)


# Over more tiles than there are slots.
@pytest.mark.parametrize(
    ("dtype", "width", "causal", "p"),
    [("bf16", 72, True, 0.25), ("f16", 96, False, 0.03), ("bf16", 128, True, 0.0), ("bf16", 128, False, 0.0)],
)
def test_wide_heads(dtype: str, width: int, causal: bool, p: float) -> None:
    for wanted in both(dtype, 300, 330, width, heads=(2, 1) if causal else (1, 1), causal=causal, p=p):
        assert_right(wanted, None, ahead(wanted)[-1])


# Columns that no row sees, and rows behind the last column.
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize(("rows", "columns"), [(64, 192), (192, 64), (3, 130), (130, 2)])
def test_causal_masks_of_more_columns_than_rows_and_of_fewer(rows: int, columns: int, width: int) -> None:
    for wanted in both("bf16", rows, columns, width, causal=True):
        assert_right(wanted, None, ahead(wanted)[-1])


@pytest.mark.parametrize("width", [64, 128])
def test_a_part_of_the_heads_draws_what_the_whole_does(width: int) -> None:
    places = (TensorType("i64", (2,)), TensorType("i64", (2,)))
    for whole in both("bf16", 70, 96, width, heads=(2, 2), p=0.25):
        options = {**dict(whole.parameters), "whole_0": 4, "whole_1": 6}
        part = problem(whole.kind, (*whole.operands, *places), whole.results, **options)
        assert_right(part, None, ahead(part)[-1])


# Keys that are padding, which some rows see nothing else of, and a bias of its own for each score.
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("shape", [(2, 1, 1, 100), (2, 2, 70, 100)])
def test_a_bias(shape: tuple[int, ...], width: int) -> None:
    for wanted in both("bf16", 70, 100, width, heads=(2, 2), p=0.25):
        bias = TensorType("f32", shape)
        first = len(wanted.operands) - (2 if wanted.kind == "attention" else 4)
        operands = (*wanted.operands[:first], bias, *wanted.operands[first:])
        biased = problem(wanted.kind, operands, wanted.results, **dict(wanted.parameters))
        given = list(implementation_of(biased).sample(biased, Draws.of(0)))
        assert_right(biased, tuple(given), ahead(biased)[-1])
        given[first][..., 40:] = float("-inf")
        given[first][1] = float("-inf")
        if wanted.kind == "attention":
            assert_right(biased, tuple(given), ahead(biased)[-1])


# Where a buffer is not aligned, a launch in Triton takes the place of one in Gluon.
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("plain", [(True, False), (False, True), (True, True)])
def test_either_launch_of_the_backward_pass_may_be_replaced(plain: tuple[bool, bool], width: int) -> None:
    _, wanted = both("bf16", 100, 140, width, p=0.25)
    implementation = implementation_of(wanted)
    recipe = implementation.recipe(wanted, ahead(wanted)[-1])
    operands = implementation.sample(wanted, Draws.of(0))
    calls = tuple(each.plain or each if is_plain else each for each, is_plain in zip(recipe.calls, plain, strict=True))
    mixed: Recipe = replace(recipe, calls=calls)
    exact = implementation.reference(wanted, operands)
    for made, other in zip(interpret(wanted, mixed, operands), exact, strict=True):
        assert (made.double() - other).norm() <= 6e-3 * other.norm()


def test_what_cannot_be_copied_in_tiles_is_left_to_threads() -> None:
    (wanted, _) = both("bf16", 64, 64)
    assert is_copied_ahead(wanted)
    for dtype, width in (("f32", 64), ("bf16", 136), ("bf16", 32), ("bf16", 44), ("bf16", 100)):
        assert not is_copied_ahead(both(dtype, 64, 64, width)[0]), (dtype, width)
