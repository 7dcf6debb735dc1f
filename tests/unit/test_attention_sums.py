"""The sums over rows that the backward pass of attention returns, as gradients of biases, on the CPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.kernel_cases import summed_attention
from dmc.errors import DmcError
from dmc.kernels.implementation import Candidate, implementation_of
from dmc.kernels.problem import Problem, TensorType, problem
from dmc.kernels.references.draws import Draws
from tests.interpreted_kernels import FEW, TOLERANCE
from tests.triton_interpreter import interpret

# Where the exact gradients are zero, as those of scores of a single column.
FLOOR = 1e-5


def assert_right(wanted: Problem, candidate: Candidate) -> None:
    """The gradients are near the reference, and their sums those of what was written, each at its columns."""
    implementation = implementation_of(wanted)
    operands = implementation.sample(wanted, Draws.of(0))
    *made, sums = interpret(wanted, implementation.recipe(wanted, candidate), operands)
    *exact, exact_sums = implementation.reference(wanted, operands)
    for each, other in zip(made, exact, strict=True):
        assert (each.double() - other).norm() <= TOLERANCE[each.dtype] * other.norm() + FLOOR
    batch, _, rows, _ = wanted.results[0].shape
    beside = torch.cat([each.transpose(1, 2).reshape(batch * rows, -1) for each in made], 1).double()
    assert sums.dtype == torch.float32
    assert (sums.double() - beside.sum(0)).norm() <= 2e-6 * beside.norm() * rows**0.5
    # The reference adds up its own, which are rounded elsewhere.
    narrowness = TOLERANCE[made[0].dtype]
    assert (sums.double() - exact_sums).norm() <= narrowness * beside.norm() + FLOOR


@FEW
@given(
    st.sampled_from(["f32", "bf16", "f16"]),
    st.integers(1, 150),
    st.sampled_from([40, 64, 128]),
    st.sampled_from([(1, 1), (4, 2), (2, 2)]),
    st.booleans(),
    st.sampled_from([0.0, 0.25]),
)
def test_every_candidate(dtype: str, rows: int, width: int, heads: tuple[int, int], causal: bool, p: float) -> None:
    wanted = summed_attention(dtype, (2, heads[0], rows, width), heads[1], p, causal)
    candidates = implementation_of(wanted).candidates(wanted)
    assert candidates
    for each in candidates:
        assert_right(wanted, each)


# Of f32 with dropout, one has tiles of other sizes in each launch, which is no candidate then.
@pytest.mark.parametrize(("dtype", "p"), [("f32", 0.25), ("bf16", 0.0)])
def test_every_candidate_of_more_rows_than_a_tile(dtype: str, p: float) -> None:
    wanted = summed_attention(dtype, (1, 1, 150, 40), 1, p, False)
    for each in implementation_of(wanted).candidates(wanted):
        assert_right(wanted, each)


# What lies behind the last row of a tile is in none of the sums.
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("rows", [1, 63, 65, 130])
def test_tiles_that_are_not_full(dtype: str, rows: int) -> None:
    wanted = summed_attention(dtype, (3, 2, rows, 64), 2, 0.0, False)
    assert_right(wanted, implementation_of(wanted).candidates(wanted)[0])


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize(("width", "value_width"), [(64, 40), (40, 64), (48, 128)])
def test_values_of_another_width(dtype: str, width: int, value_width: int) -> None:
    wanted = summed_attention(dtype, (1, 3, 70, width), 3, 0.0, True, value_width)
    for each in implementation_of(wanted).candidates(wanted):
        assert_right(wanted, each)


def test_sums_of_what_is_no_matrix_are_refused() -> None:
    wanted = summed_attention("bf16", (2, 2, 64, 64), 2, 0.0, False)
    dense = TensorType("bf16", (2, 2, 64, 64))
    for results in ((dense, *wanted.results[1:]), (*wanted.results[:3], TensorType("f32", (400,)))):
        refused = problem(wanted.kind, wanted.operands, results, **dict(wanted.parameters))
        with pytest.raises(DmcError, match="sums of gradients that do not make up a matrix"):
            implementation_of(refused)
