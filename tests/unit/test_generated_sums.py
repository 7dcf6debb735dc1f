"""Sums over the rows of what an epilogue computes from a product, in Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dmc.kernels.generated import generate, ping_pong, tiles
from tests.generated_regions import assert_right, region, regions_of, sample, shaped
from tests.machine_code import machine_code
from tests.triton_interpreter import interpret
from tests.unit.test_generated_kernels import FEW, SQUARE

IN_TURN = "ping_pong.add_rows(part0_at + tile_row * "


@FEW
@given(st.integers(4, 300), st.integers(4, 200), st.sampled_from([8, 40, 100]), st.booleans())
def test_sums_over_the_rows_of_a_product(context: Any, rows: int, columns: int, depth: int, special: bool) -> None:
    generated = assert_right(shaped("sums", m=rows, n=columns, k=depth), special=special)
    assert all(len(recipe.calls) == 2 for recipe in generated.recipes)
    shapes = {recipe.scratch[0].shape for recipe in generated.recipes}
    assert all(shape[1] == columns and shape[0] < max(rows // 16, 2) for shape in shapes), shapes


@pytest.mark.parametrize(("rows", "columns"), [(4220, 1024), (4224, 1032)])
def test_groups_of_warps_in_turn_leave_sums(context: Any, rows: int, columns: int) -> None:
    """Of tiles that rows, or columns, do not fill."""
    generated = assert_right(shaped("sums", m=rows, n=columns, k=32), every=False)
    sources = [recipe.calls[0].source for recipe in generated.recipes]
    assert IN_TURN in sources[0] and any("tl.sum(" in each and IN_TURN not in each for each in sources)
    # What is copied ahead keeps its place, for which a result may be written where threads read it.
    assert not generated.recipes[0].in_place and {(0, 2), (1, 2)} <= set(generated.recipes[-1].in_place)


def test_every_way_to_leave_sums_gives_the_same(context: Any) -> None:
    generated = assert_right(shaped("sums", m=2052, n=2104, k=16), special=True)
    assert any("ping_pong." in recipe.calls[0].source for recipe in generated.recipes)


def test_a_long_epilogue_is_a_loop(context: Any, monkeypatch: Any) -> None:
    """Whose code for all pieces would not stay in the instruction cache."""
    module = shaped("sums", m=4224, n=1024, k=32)
    assert "looped=True" in generate(regions_of(module)["region"]).recipes[0].calls[0].source
    monkeypatch.setattr(ping_pong, "_MOST_LINES", 1000)
    assert_right(module, every=False)
    assert "looped=False" in generate(regions_of(module)["region"]).recipes[0].calls[0].source


def test_numbers_are_rounded_and_widened_in_pairs(context: Any) -> None:
    module = region("""(%x: tensor<1000xf32>) -> tensor<1000xf32> {
      %e = tensor.empty() : tensor<1000xf32>
      %y = linalg.generic {
          indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
          ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
      ^bb0(%in: f32, %o: f32):
        %t = arith.truncf %in : f32 to bf16
        %w = arith.extf %t : bf16 to f32
        linalg.yield %w : f32
      } -> tensor<1000xf32>
      return %y : tensor<1000xf32>
    }""")
    generated = generate(regions_of(module)["region"])
    assert "functions.nearest(x0)" in generated.recipes[0].calls[0].source
    (x,) = sample(generated.problem.operands, 0, special=True)
    (made,) = interpret(generated.problem, generated.recipes[0], (x,))
    torch.testing.assert_close(made, x.bfloat16().float(), rtol=0, atol=0, equal_nan=True)
    (entry,) = machine_code([(str(regions_of(module)["region"]), 0)])[0]
    # Two numbers by each conversion, and none back.
    assert "cvt.rn.bf16x2.f32" in entry["ptx"] and "cvt.f32.bf16" not in entry["ptx"]


def test_a_tile_copied_by_threads_leaves_them_too(context: Any) -> None:
    """What takes the place of a kernel where a buffer is not aligned."""
    module = shaped("sums", m=4224, n=1024, k=32)
    generated = generate(regions_of(module)["region"])
    recipe = generated.recipes[0]
    plain = recipe.calls[0].plain
    assert plain is not None and "tl.sum(" in plain.source and not plain.views
    operands = sample(generated.problem.operands, 0)
    every = (recipe, replace(recipe, calls=(plain, *recipe.calls[1:])))
    one, other = (interpret(generated.problem, each, operands) for each in every)
    assert all(torch.equal(a, b) for a, b in zip(one[:2], other[:2], strict=True))
    torch.testing.assert_close(one[2], other[2], rtol=1e-5, atol=1e-5)


def test_a_product_in_parts_is_added_up_before(context: Any) -> None:
    generated = assert_right(shaped("sums", m=40, n=70, k=1100))
    assert all(len(recipe.calls) > 2 for recipe in generated.recipes)


def test_what_an_epilogue_reads_is_copied_ahead(context: Any, monkeypatch: Any) -> None:
    """A factor, too, which then is not overwritten."""
    monkeypatch.setattr(tiles, "_PROCESSORS", 2)
    module = region(SQUARE)
    generated = assert_right(module, every=False, special=True)
    first = generated.recipes[0]
    assert "ping_pong.read(ahead, 0, [" in first.calls[0].source and not first.in_place
