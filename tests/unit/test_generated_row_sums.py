"""Sums over all rows beside reductions of each row, in Triton's interpreter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dmc.kernels import row_sums
from dmc.kernels.generated import generate
from tests.generated_regions import assert_right, region, regions_of, sample, shaped
from tests.triton_interpreter import interpret
from tests.unit.test_generated_kernels import FEW


@pytest.fixture
def few_rows(monkeypatch: Any) -> None:
    """A few rows are enough."""
    monkeypatch.setattr(row_sums, "_FEWEST", 4)
    monkeypatch.setattr(row_sums, "_LEAST_PROGRAMS", 1)


@pytest.mark.usefixtures("few_rows")
@FEW
@given(st.integers(90, 150), st.integers(2, 89), st.booleans())
def test_sums_over_all_rows_beside_reductions(context: Any, rows: int, columns: int, special: bool) -> None:
    generated = assert_right(shaped("row_sums", r=rows, c=columns), special=special)
    for recipe in generated.recipes:
        assert len(recipe.calls) == 2
        assert all(each.shape[1] == columns and each.shape[0] <= rows for each in recipe.scratch)


def test_programs_take_rows_in_turn(context: Any) -> None:
    generated = assert_right(shaped("row_sums", r=4224, c=40), every=False, special=True)
    recipe = generated.recipes[0]
    assert [call.programs for call in recipe.calls] == [528, 3] and "for step in tl.range(0, 8" in recipe.calls[
        0
    ].source
    # Rows are read ahead of what is written; without that, a result may be in the memory of an operand.
    plain = [each for each in generated.recipes if "num_stages" not in each.calls[0].source]
    assert not recipe.in_place and plain and all((0, 1) in each.in_place for each in plain)


@pytest.mark.usefixtures("few_rows")
def test_every_way_gives_the_same_rows(context: Any) -> None:
    module = shaped("row_sums", r=66, c=33)
    generated = generate(regions_of(module)["region"])
    operands = sample(generated.problem.operands, 0)
    first, *others = (interpret(generated.problem, each, operands) for each in generated.recipes)
    assert len(others) == len(generated.recipes) - 1 > 3
    for each in others:
        torch.testing.assert_close(each, first, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(4000, 40), (4096, 2049), (4099, 40)])
def test_other_sizes_are_computed_apart(context: Any, rows: int, columns: int) -> None:
    """Few rows, wide ones, and a number of them that no programs share."""
    module = shaped("row_sums", r=rows, c=columns)
    generated = generate(regions_of(module)["region"])
    assert not any("and sums over them" in call.source for recipe in generated.recipes for call in recipe.calls)


BEHIND = """(%x: tensor<64x24xf32>) -> (tensor<24xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %tall = tensor.empty() : tensor<64xf32>
  %few = tensor.empty() : tensor<24xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%tall : tensor<64xf32>) -> tensor<64xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<24xf32>) -> tensor<24xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = ["reduction", "parallel"]} ins(%x : tensor<64x24xf32>) outs(%none : tensor<24xf32>) {
  ^bb0(%in: f32, %o: f32):
    %s = arith.addf %in, %o : f32
    linalg.yield %s : f32
  } -> tensor<24xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x, %a : tensor<64x24xf32>, tensor<24xf32>) outs(%zeros : tensor<64xf32>) {
  ^bb0(%in: f32, %sum: f32, %o: f32):
    %d = arith.subf %in, %sum : f32
    %s = arith.addf %d, %o : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %a, %t : tensor<24xf32>, tensor<64xf32>
}"""


@pytest.mark.usefixtures("few_rows")
def test_rows_that_depend_on_sums_wait_for_them(context: Any) -> None:
    generated = assert_right(region(BEHIND))
    assert not any("and sums over them" in call.source for recipe in generated.recipes for call in recipe.calls)
