"""The kernels written by hand, in Triton's interpreter, against their float64 references; shapes are small and odd."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from dmc.dropout import share_of_attention
from dmc.errors import DmcError
from dmc.importer.composites.dropout import keep_scale as composite_keep_scale
from dmc.kernels.implementation import implementation_of
from dmc.kernels.problem import Parameter, Problem, TensorType, problem
from dmc.kernels.references.draws import Draws
from dmc.kernels.references.philox import keep_scale
from tests.interpreted_kernels import FEW, SEED, assert_right, f32
from tests.triton_interpreter import interpret


def attention(
    shape: tuple[int, int, int, int],
    columns: int,
    kv_heads: int,
    bias: tuple[int, ...] = (),
    whole: tuple[int, ...] = (),
    **options: Parameter,
) -> tuple[Problem, Problem]:
    """Both passes; the values are 4 wider than the keys. whole: the batches and heads of which these are a part."""
    batch, heads, rows, width = shape
    q, k = f32(*shape), f32(batch, kv_heads, columns, width)
    v, out = f32(batch, kv_heads, columns, width + 4), f32(batch, heads, rows, width + 4)
    level = f32(batch, heads, rows, 1)
    inputs = (q, k, v, *([f32(*bias)] if bias else []))
    options = {"scale": 0.3, "causal": False, "p": 0.0, **options}
    options |= {f"whole_{i}": size for i, size in enumerate(whole)}
    drawn = (SEED, SEED, *(TensorType("i64", (size,)) for size in shape[: len(whole)]))
    forward = problem("attention", (*inputs, *drawn), (out, level), **options)
    backward = problem("attention_backward", (out, *inputs, out, level, *drawn), (q, k, v), **options)
    return forward, backward


@FEW
@given(
    st.integers(1, 40), st.integers(1, 40), st.sampled_from([8, 20]), st.booleans(), st.sampled_from([(), (1, 1, 1, 0)])
)
def test_attention(rows: int, columns: int, width: int, causal: bool, bias: tuple[int, ...]) -> None:
    bias = (*bias[:3], columns) if bias else ()
    for each in attention((1, 2, rows, width), columns, 1, bias, causal=causal):
        assert_right(each)


# Rows that begin with a group of draws, in whole tiles and not, and rows that begin within one.
@pytest.mark.parametrize(("rows", "columns", "p"), [(64, 64, 0.25), (33, 130, 0.75), (33, 96, 0.03), (33, 35, 0.03)])
def test_attention_drops_the_same_elements_in_both_passes(rows: int, columns: int, p: float) -> None:
    for each in attention((2, 1, rows, 8), columns, 1, p=p):
        assert_right(each)


# Tiles of 32 columns begin within a group of draws, so neither launch of a backward pass relies on a stored mask.
def test_every_candidate_drops_the_same_elements() -> None:
    for each in attention((1, 1, 70, 8), 70, 1, p=0.25):
        for chosen in implementation_of(each).candidates(each):
            assert_right(each, None, chosen)


@pytest.mark.parametrize("p", [0.25, 0.1, 0.03])
def test_attention_drops_what_the_composite_does(p: float) -> None:
    forward, _ = attention((1, 1, 3, 8), 70, 1, p=p)
    seed, draw = torch.tensor(5), torch.tensor(7)
    expected = composite_keep_scale([3, 70], seed, draw, share_of_attention(p))
    torch.testing.assert_close(keep_scale(forward, (3, 70), 0, seed, draw).float(), expected)


# A rank that has two of four batches, and the last two of four heads.
@pytest.mark.parametrize(("rows", "columns", "p"), [(64, 64, 0.03), (64, 64, 0.25), (33, 35, 0.25)])
def test_a_part_of_attention_gives_what_the_whole_gives_there(rows: int, columns: int, p: float) -> None:
    batches, heads = torch.tensor([1, 3]), torch.tensor([2, 3])

    def own(tensor: Tensor) -> Tensor:
        if not tensor.dim():
            return tensor
        return tensor[batches][:, heads if tensor.shape[1] > 1 else [0]].contiguous()

    whole = attention((4, 4, rows, 8), columns, 4, (4, 1, 1, columns), p=p, causal=True)
    part = attention((2, 2, rows, 8), columns, 2, (2, 1, 1, columns), (4, 4), p=p, causal=True)
    for every, wanted in zip(whole, part, strict=True):
        implementation = implementation_of(wanted)
        operands = implementation.sample(every, Draws.of(0))
        given = (*map(own, operands), batches, heads)
        chosen = implementation.candidates(wanted)[0]
        made = interpret(wanted, implementation.recipe(wanted, chosen), given)
        there = interpret(every, implementation.recipe(every, chosen), operands)
        assert all(one.equal(own(other)) for one, other in zip(made, there, strict=True))
        assert_right(wanted, given)


def test_a_part_of_attention_with_shared_keys_and_numbers_of_64_bits() -> None:
    for each in attention((1, 4, 33, 8), 64, 2, whole=(1 << 22, 64), p=0.25):
        assert_right(each)


@pytest.mark.parametrize(
    ("length", "p", "is_stored"),
    [(1 << 16, 0.03, True), (1 << 17, 0.03, False), (1 << 17, 0.25, True), (1 << 18, 0.25, False)],
)
def test_masks_are_stored_where_32_bits_number_their_blocks(length: int, p: float, is_stored: bool) -> None:
    _, backward = attention((1, 1, length, 8), length, 1, p=p)
    implementation = implementation_of(backward)
    recipe = implementation.recipe(backward, implementation.candidates(backward)[0])
    assert (len(recipe.scratch) == 2) == is_stored


def test_attention_with_a_general_bias_and_rows_that_see_nothing() -> None:
    forward, backward = attention((1, 2, 9, 8), 20, 2, (1, 2, 9, 20), causal=True)
    operands = list(implementation_of(forward).sample(forward, Draws.of(0)))
    operands[3][:, :, 4] = -math.inf
    assert_right(forward, tuple(operands))
    made = implementation_of(forward).reference(forward, tuple(operands))
    assert made[0][:, :, 4].eq(0).all() and made[1][:, :, 4].eq(math.inf).all()
    saved = [each.float() for each in made]
    assert_right(backward, (torch.ones_like(saved[0]), *operands[:4], *saved, *operands[4:]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_attention_shows_what_is_not_finite(value: float) -> None:
    forward, _ = attention((1, 1, 20, 8), 20, 1)
    operands = implementation_of(forward).sample(forward, Draws.of(0))
    operands[0][0, 0, 3, 2] = value
    operands[2][0, 0, 5, 1] = math.nan
    assert_right(forward, operands)


def test_attention_over_queries_keys_and_values_side_by_side() -> None:
    batch, heads, rows, width = shape = (2, 2, 17, 16)
    strides = (rows * 3 * heads * width, width, 3 * heads * width, 1)
    q, level = TensorType("f16", shape, strides), f32(batch, heads, rows, 1)
    out = TensorType("f16", shape, (rows * heads * width, width, heads * width, 1))
    options: dict[str, Parameter] = {"scale": 0.25, "causal": True, "p": 0.0}
    assert_right(problem("attention", (q, q, q, SEED, SEED), (out, level), **options))
    # Gradients need not lie as what they are of.
    for dout, dq, dk, dv in ((out, q, q, q), (TensorType("f16", shape), out, q, TensorType("f16", shape))):
        operands = (dout, q, q, q, out, level, SEED, SEED)
        assert_right(problem("attention_backward", operands, (dq, dk, dv), **options))


def test_attention_refuses_views_that_its_kernels_do_not_follow() -> None:
    forward, _ = attention((1, 1, 8, 8), 8, 1)
    turned = TensorType("f32", (1, 1, 8, 8), (64, 64, 1, 8))
    spread = TensorType("f32", (1, 1, 8, 1), (16, 16, 2, 1))
    for operands, results, why in (
        ((turned, *forward.operands[1:]), forward.results, "rows are not contiguous"),
        (forward.operands, (forward.results[0], spread), "the log-sum-exp, seed, draw or a place is not contiguous"),
    ):
        with pytest.raises(DmcError, match=why):
            implementation_of(problem("attention", operands, results, scale=1.0))


def test_attention_says_what_it_does_not_take() -> None:
    forward, backward = attention((1, 1, 8, 8), 8, 1, scale=-1.0)
    for each in (forward, backward):
        with pytest.raises(DmcError, match="the scale is not positive"):
            implementation_of(each)
    _, backward = attention((1, 1, 8, 8), 8, 1, (1, 1, 8, 8))
    with_bias = problem(backward.kind, backward.operands, (*backward.results, f32(1, 1, 8, 8)), scale=1.0)
    with pytest.raises(DmcError, match="the gradient of the bias is not computed"):
        implementation_of(with_bias)


@FEW
@given(st.integers(1, 150), st.sampled_from([1, 3, 40]), st.sampled_from([-1, 0]))
@example(1300, 40, 0)
@example(512, 3, -1)
def test_gradient_of_an_embedding(occurrences: int, rows: int, padding: int) -> None:
    """Also of several sorted runs, the last of them incomplete."""
    operands = (TensorType("bf16", (occurrences, 20)), TensorType("i64", (occurrences,)))
    assert_right(problem("embedding_backward", operands, (f32(rows, 20),), padding_index=padding))


@FEW
@given(st.integers(1, 150), st.sampled_from([1, 3, 40]), st.sampled_from([-1, 5]))
@example(1300, 40, 45)
def test_gradient_of_a_part_of_an_embedding(occurrences: int, rows: int, padding: int) -> None:
    """The second part of a table's rows; the padding's number is that of the whole table."""
    places = TensorType("i64", (rows,))
    operands = (TensorType("bf16", (occurrences, 20)), TensorType("i64", (occurrences,)), places)
    given = problem("embedding_backward", operands, (f32(rows, 20),), padding_index=padding, whole_0=3 * rows)
    assert_right(given)
