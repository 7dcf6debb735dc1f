"""Generated kernels in Triton's interpreter, against the regions that they come from as numpy computes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dmc.kernels.generated import Declined, generate
from tests.generated_regions import assert_right, region, regions_of, shaped

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
