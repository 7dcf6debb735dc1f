"""Generated kernels in Triton's interpreter, against the regions that they come from as numpy computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dmc.kernels.generated import Declined, generate, tiles
from dmc.kernels.recipe import Buffer
from tests.generated_regions import assert_right, region, regions_of, sample, shaped
from tests.triton_interpreter import interpret

# x · w + x: each program reads rows of x that another writes the results for.
SQUARE = """(%x: tensor<512x512xbf16>, %w: tensor<512x512xbf16>) -> tensor<512x512xbf16> {
  %none = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x512xf32>
  %z = linalg.fill ins(%none : f32) outs(%e : tensor<512x512xf32>) -> tensor<512x512xf32>
  %p = linalg.matmul ins(%x, %w : tensor<512x512xbf16>, tensor<512x512xbf16>) outs(%z : tensor<512x512xf32>)
      -> tensor<512x512xf32>
  %n = tensor.empty() : tensor<512x512xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p, %x : tensor<512x512xf32>, tensor<512x512xbf16>) outs(%n : tensor<512x512xbf16>) {
  ^bb0(%in: f32, %c: bf16, %o: bf16):
    %t = arith.truncf %in : f32 to bf16
    %s = arith.addf %t, %c : bf16
    linalg.yield %s : bf16
  } -> tensor<512x512xbf16>
  return %y : tensor<512x512xbf16>
}"""
FEW = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@FEW
@given(st.integers(1, 70), st.integers(1, 70), st.booleans())
def test_elements(context: Any, rows: int, columns: int, special: bool) -> None:
    assert_right(shaped("elements", r=rows, c=columns, n=rows * columns), special=special)


@pytest.mark.parametrize("half", [1, 5, 32])
def test_halves_that_change_places(context: Any, half: int) -> None:
    generated = assert_right(shaped("halves", r=33, c=2 * half, h=half), special=True)
    assert all(len(recipe.calls) == 1 for recipe in generated.recipes)


@FEW
@given(st.integers(32, 70), st.sampled_from([2, 3, 64, 100, 600]), st.booleans())
def test_rows(context: Any, rows: int, columns: int, special: bool) -> None:
    generated = assert_right(shaped("rows", r=rows, c=columns, n=2 * rows), special=special)
    assert all(len(recipe.calls) == 1 for recipe in generated.recipes)


def test_rows_that_do_not_fit(context: Any) -> None:
    generated = assert_right(shaped("rows", r=32, c=9000, n=64), every=False, special=True)
    assert "for start" in generated.recipes[0].calls[0].source


def test_few_rows_that_wait_for_another_reduction(context: Any) -> None:
    assert_right(shaped("rows", r=2, c=30, n=4))


@FEW
@given(st.sampled_from([1, 5, 64, 300]), st.sampled_from([1, 3, 64, 70]), st.booleans())
def test_columns(context: Any, rows: int, columns: int, special: bool) -> None:
    assert_right(shaped("columns", r=rows, c=columns), special=special)


def test_shallow_columns_fill_a_tile(context: Any) -> None:
    generated = assert_right(shaped("columns", r=4, c=5000))
    assert all(call.programs <= 10 for recipe in generated.recipes for call in recipe.calls)


def test_columns_shared_by_programs(context: Any) -> None:
    generated = assert_right(shaped("columns", r=700, c=5))
    assert all(len(recipe.calls) == 2 and len(recipe.scratch) == 2 for recipe in generated.recipes)


@FEW
@given(st.sampled_from([(64, 64, 64), (4, 4, 8), (33, 70, 20), (130, 257, 70)]), st.sampled_from(["bf16", "f16"]))
def test_products(context: Any, sizes: tuple[int, int, int], dtype: str) -> None:
    rows, columns, depth = sizes
    generated = assert_right(shaped("product", m=rows, n=columns, k=depth, type=dtype))
    source = generated.recipes[0].calls[0].source
    assert "tl.dot(" in source and "ieee" not in source, "narrow factors stay narrow"
    assert set(generated.recipes[0].in_place) == {(0, 3)}


@pytest.mark.parametrize("sizes", [(33, 70, 20), (136, 264, 40)])
def test_a_result_beside_a_product(context: Any, monkeypatch: Any, sizes: tuple[int, int, int]) -> None:
    monkeypatch.setattr(tiles, "_PROCESSORS", 2)
    monkeypatch.setattr(tiles, "COPIED", tiles.COPIED[::4])
    rows, columns, depth = sizes
    recipes = assert_right(shaped("beside", m=rows, n=columns, k=depth, type="bf16")).recipes
    assert len(recipes[0].calls) == 1


@pytest.mark.parametrize("sizes", [(200, 304, 72), (136, 264, 40)])
def test_products_whose_tiles_are_copied(context: Any, monkeypatch: Any, sizes: tuple[int, int, int]) -> None:
    monkeypatch.setattr(tiles, "_PROCESSORS", 2)  # Few tiles are many for so small a GPU.
    monkeypatch.setattr(tiles, "COPIED", tiles.COPIED[::4])
    rows, columns, depth = sizes
    generated = assert_right(shaped("product", m=rows, n=columns, k=depth, type="bf16"))
    first = generated.recipes[0]
    (call,) = first.calls
    assert [None if view is None else view.shape for _, view in call.parameters()] == [
        (depth, rows),
        (depth, columns),
        *2 * [(rows, columns)],
        *2 * [None],
    ]
    assert set(first.in_place) == {(0, 3)}
    # Where a factor is not aligned, threads load it; the residual's alignment is nothing to tiles.
    assert call.aligned({Buffer("operand", 3)}) is call
    assert call.plain is not None and call.aligned({Buffer("operand", 0)}) is call.plain
    operands = sample(generated.problem.operands, 0)
    one, other = (interpret(generated.problem, replace(first, calls=(each,)), operands) for each in (call, call.plain))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_factors_that_are_not_aligned_are_not_copied(context: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(tiles, "_PROCESSORS", 2)
    module = shaped("product", m=130, n=264, k=72, type="bf16")
    recipes = generate(regions_of(module)["region"]).recipes
    assert not any(call.views for recipe in recipes for call in recipe.calls)


def test_a_factor_that_is_read_again_is_not_overwritten(context: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(tiles, "_PROCESSORS", 2)
    module = region(SQUARE)
    recipe = generate(regions_of(module)["region"]).recipes[0]
    assert recipe.calls[0].views and not recipe.in_place


def test_several_programs_of_a_processor_take_turns(context: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(tiles, "_PROCESSORS", 2)
    monkeypatch.setattr(tiles, "COPIED", tuple(each for each in tiles.COPIED if each["resident"] == 2)[:1])
    generated = assert_right(shaped("product", m=520, n=520, k=72, type="bf16"), every=False)
    (call,) = generated.recipes[0].calls
    assert call.programs == 4 and "tl.range(tl.program_id(0), 25, 4, flatten=True)" in call.source


def test_products_that_are_split_along_their_depth(context: Any) -> None:
    generated = assert_right(shaped("product", m=20, n=70, k=1100, type="bf16"))
    assert len(generated.recipes[0].calls) == 2 and generated.recipes[0].scratch[0].shape == (2, 20, 70)


def test_addresses_have_as_many_bits_as_a_tensor_needs(context: Any) -> None:
    for rows, is_wide in ((1000, False), (50000, True)):
        module = shaped("rows", r=rows, c=50257, n=2 * rows)
        source = generate(regions_of(module)["region"]).recipes[0].calls[0].source
        assert ("row.to(tl.int64)" in source) == is_wide


def test_equal_regions_give_equal_sources(context: Any) -> None:
    modules = [shaped("product", m=64, n=64, k=64, type="bf16") for _ in range(2)]
    one, other = (generate(regions_of(module)["region"]) for module in modules)
    assert one == other


def test_what_is_not_generated_is_declined_with_its_reason(context: Any) -> None:
    module = region("""(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "dm.composite"(%x) {kind = "unknown", decomposition = @f, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }""")
    with pytest.raises(Declined, match=r"dm\.composite of tensors"):
        generate(regions_of(module)["region"])
