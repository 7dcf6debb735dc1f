"""The kernels of a mixture of experts, in Triton's interpreter, against their float64 references."""

from __future__ import annotations

import math

import pytest
import torch

from dmc.errors import DmcError
from dmc.kernels.implementation import candidate, implementation_of
from dmc.kernels.problem import Problem, TensorType, problem
from dmc.kernels.recipe import Recipe
from dmc.kernels.references.draws import Draws
from tests.interpreted_kernels import assert_right, f32
from tests.triton_interpreter import interpret

SMALL = candidate(rows=16, columns=16, depth=16, stages=1)
# Groups of rows by their sizes, and the rows before the first.
ROUTINGS = [((5, 0, 33, 2), 0), ((40, 0, 0, 0), 0), ((0, 0, 0, 40), 0), ((0, 0, 0, 0), 0), ((7, 1, 16, 0), 9)]


def i64(*shape: int) -> TensorType:
    return TensorType("i64", shape)


def product(dtype: str, rows: int, depth: int, columns: int, groups: int, turned: bool, parts: int = 1) -> Problem:
    matrices, ends = (groups, columns, depth) if turned else (groups, depth, columns), i64(parts, groups)
    operands = (TensorType(dtype, (parts, rows, depth)), TensorType(dtype, matrices), ends, ends)
    return problem("grouped_product", operands, (TensorType(dtype, (parts, rows, columns)),), turned=turned)


def outer(dtype: str, rows: int, depth: int, columns: int, groups: int, parts: int = 1) -> Problem:
    left, right, ends = (parts, rows, depth), (parts, rows, columns), i64(parts, groups)
    operands = (TensorType(dtype, left), TensorType(dtype, right), ends, ends)
    return problem("grouped_outer_product", operands, (TensorType(dtype, (groups, depth, columns)),))


def bounds(sizes: tuple[int, ...], first: int) -> tuple[torch.Tensor, torch.Tensor]:
    ends = torch.tensor(sizes).cumsum(0) + first
    return (ends - torch.tensor(sizes)).unsqueeze(0), ends.unsqueeze(0)


@pytest.mark.parametrize(("sizes", "first"), ROUTINGS)
@pytest.mark.parametrize("depth", [24, 10])
def test_products_of_any_routing(sizes: tuple[int, ...], first: int, depth: int) -> None:
    for wanted in (product("bf16", 40, depth, 40, 4, False), product("bf16", 40, depth, 24, 4, True)):
        rows, matrices, *_ = implementation_of(wanted).sample(wanted, Draws.of(0))
        assert_right(wanted, (rows, matrices, *bounds(sizes, first)), SMALL)
    wanted = outer("bf16", 40, depth, 24, 4)
    left, right, *_ = implementation_of(wanted).sample(wanted, Draws.of(0))
    assert_right(wanted, (left, right, *bounds(sizes, first)), SMALL)


def test_every_candidate_and_products_in_f32() -> None:
    for wanted in (product("f32", 70, 20, 33, 3, True), outer("f32", 70, 20, 36, 3), product("f16", 9, 8, 8, 2, False)):
        for chosen in implementation_of(wanted).candidates(wanted):
            assert_right(wanted, None, chosen)


def test_what_is_not_finite_stays_in_its_group() -> None:
    """Tiles reach into other groups' rows, and those of rows into other groups' matrices."""
    own = bounds((5, 35), 0)
    wanted = product("f32", 40, 24, 24, 2, False)
    rows, matrices, *_ = implementation_of(wanted).sample(wanted, Draws.of(0))
    rows[0, 6], matrices[1] = math.nan, math.inf
    assert_right(wanted, (rows, matrices, *own), SMALL)
    wanted = outer("f32", 40, 24, 24, 2)
    left, right, *_ = implementation_of(wanted).sample(wanted, Draws.of(0))
    left[0, 6], right[0, 7] = math.nan, math.inf
    assert_right(wanted, (left, right, *own), SMALL)


@pytest.mark.parametrize(("slots", "experts"), [(1, 1), (300, 5), (700, 16), (40, 200)])
def test_order(slots: int, experts: int) -> None:
    every, bounds = i64(2, slots), i64(2, experts)
    wanted = problem("expert_order", (every,), (every, every, bounds, bounds))
    for chosen in implementation_of(wanted).candidates(wanted):
        for operands in (None, (torch.full([2, slots], experts - 1),), (torch.full([2, slots], -3),)):
            given = operands or implementation_of(wanted).sample(wanted, Draws.of(0))
            implementation = implementation_of(wanted)
            made = interpret(wanted, implementation.recipe(wanted, chosen), given)
            for result, exact in zip(made, implementation.reference(wanted, given), strict=True):
                assert torch.equal(result.double(), exact)


def test_programs_suffice_for_any_routing() -> None:
    """The most tiles: every group, and the rows beside them, leave one incomplete."""
    wanted = product("f32", 17 * 5, 16, 16, 3, False)
    rows, matrices, *_ = implementation_of(wanted).sample(wanted, Draws.of(0))
    assert_right(wanted, (rows, matrices, *bounds((17, 17, 17), 17)), SMALL)


def test_what_products_refuse() -> None:
    narrow, ends = TensorType("bf16", (1, 4, 8)), i64(1, 2)
    spread = TensorType("f32", (1, 4, 8), (64, 16, 1))
    for first, second, why in (
        (narrow, f32(2, 8, 8), "elements of types bf16 and f32"),
        (spread, f32(2, 8, 8), "not contiguous"),
        (TensorType("i64", (1, 4, 8)), TensorType("i64", (2, 8, 8)), "not accumulated in f32"),
    ):
        with pytest.raises(DmcError, match=why):
            implementation_of(problem("grouped_product", (first, second, ends, ends), (narrow,), turned=False))


def test_an_unaligned_buffer_takes_pointers() -> None:
    wanted = product("bf16", 40, 24, 24, 2, False)
    implementation = implementation_of(wanted)
    rows, matrices, *_ = implementation.sample(wanted, Draws.of(0))
    recipe = implementation.recipe(wanted, SMALL)
    plain = Recipe(tuple(call.plain for call in recipe.calls if call.plain))
    given = rows, matrices, *bounds((5, 35), 0)
    (made,), (mapped,) = interpret(wanted, plain, given), interpret(wanted, recipe, given)
    assert torch.equal(made, mapped)


def test_parts_are_apart() -> None:
    wanted = product("f32", 40, 24, 24, 3, True, parts=2)
    assert_right(wanted, None, SMALL)
    wanted = outer("bf16", 40, 24, 24, 3, parts=2)
    assert_right(wanted, None, SMALL)
