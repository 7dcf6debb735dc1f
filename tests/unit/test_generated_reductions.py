"""Reductions and products of every kind in generated kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dmc.kernels.generated import Declined, generate
from tests.generated_regions import assert_right, region, regions_of, sample
from tests.triton_interpreter import interpret


def sums(shape: str, maps: str, kinds: str, result: str, op: str, dtype: str, start: str) -> Any:
    return region(f"""(%x: tensor<{shape}x{dtype}>) -> tensor<{result}{dtype}> {{
      %c = arith.constant {start if dtype == "i1" else f"{start} : {dtype}"}
      %e = tensor.empty() : tensor<{result}{dtype}>
      %z = linalg.fill ins(%c : {dtype}) outs(%e : tensor<{result}{dtype}>) -> tensor<{result}{dtype}>
      %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
          ins(%x : tensor<{shape}x{dtype}>) outs(%z : tensor<{result}{dtype}>) {{
      ^bb0(%in: {dtype}, %o: {dtype}):
        %s = {op} %in, %o : {dtype}
        linalg.yield %s : {dtype}
      }} -> tensor<{result}{dtype}>
      return %0 : tensor<{result}{dtype}>
    }}""")


REDUCTIONS = [
    ("arith.addf", "f32", "0.0"),
    ("arith.mulf", "f32", "1.0"),
    ("arith.maximumf", "f32", "0xFF800000"),
    ("arith.minnumf", "f32", "2.0"),
    ("arith.addi", "i64", "5"),
    ("arith.maxsi", "i64", "-9223372036854775808"),
    ("arith.minsi", "i32", "2147483647"),
    ("arith.andi", "i1", "true"),
    ("arith.ori", "i1", "false"),
]


@pytest.mark.parametrize(("op", "dtype", "start"), REDUCTIONS)
def test_reductions_of_every_kind_over_outer_and_inner_dimensions(
    context: Any, op: str, dtype: str, start: str
) -> None:
    special = "num" in op or "imum" in op
    inner = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>"
    both = "affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (j)>"
    for rows in (3, 66):
        module = sums(f"{rows}x20", inner, '"parallel", "reduction"', f"{rows}x", op, dtype, start)
        assert_right(module, special=special, every=False)
    module = sums("5x3x30", both, '"reduction", "parallel", "reduction"', "3x", op, dtype, start)
    assert_right(module, special=special, every=False)


def test_sums_of_narrow_numbers_are_rounded_once(context: Any) -> None:
    maps = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>"
    module = sums("70x300", maps, '"parallel", "reduction"', "70x", "arith.addf", "bf16", "0.0")
    generated = generate(regions_of(module)["region"])
    (x,) = sample(generated.problem.operands, 0)
    (made,) = interpret(generated.problem, generated.recipes[0], (x,))
    torch.testing.assert_close(made, x.double().sum(1).bfloat16(), rtol=0.01, atol=1e-5)


def test_all_of_a_tensor_becomes_one(context: Any) -> None:
    maps = "affine_map<(i) -> (i)>, affine_map<(i) -> ()>"
    generated = assert_right(sums("5000", maps, '"reduction"', "", "arith.addf", "f32", "0.0"))
    assert len(generated.recipes[0].calls) == 2


def test_a_reduction_in_which_order_matters_is_declined(context: Any) -> None:
    maps = "affine_map<(i) -> (i)>, affine_map<(i) -> ()>"
    module = sums("50", maps, '"reduction"', "", "arith.subf", "f32", "0.0")
    with pytest.raises(Declined, match="other than sum, product or extremum"):
        generate(regions_of(module)["region"])


def product(op: str, first: str, second: str, result: str, start: str = "0.0", more: str = "") -> Any:
    dtype = result.rsplit("x", 1)[-1]
    return region(f"""(%a: tensor<{first}>, %b: tensor<{second}>) -> tensor<{result}> {{
      %c = arith.constant {start} : {dtype}
      %e = tensor.empty() : tensor<{result}>
      %z = linalg.fill ins(%c : {dtype}) outs(%e : tensor<{result}>) -> tensor<{result}>
      %0 = {op} {more} ins(%a, %b : tensor<{first}>, tensor<{second}>) outs(%z : tensor<{result}>) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}""")


@pytest.mark.parametrize(
    ("op", "first", "second", "result", "start", "is_tiled"),
    [
        ("linalg.matmul", "33x20xf32", "20x17xf32", "33x17xf32", "1.5", True),
        ("linalg.batch_matmul", "3x20x40xbf16", "3x40x24xbf16", "3x20x24xf32", "0.0", True),
        ("linalg.matmul", "2x20xbf16", "20x17xbf16", "2x17xf32", "0.0", False),
        ("linalg.matvec", "70x20xf32", "20xf32", "70xf32", "0.0", False),
        ("linalg.vecmat", "20xf32", "20x70xf32", "70xf32", "0.0", False),
        ("linalg.dot", "90xf32", "90xf32", "f32", "0.0", False),
        ("linalg.matmul", "9x20xi64", "20x17xi64", "9x17xi64", "0", False),
    ],
)
def test_products_of_every_kind(
    context: Any, op: str, first: str, second: str, result: str, start: str, is_tiled: bool
) -> None:
    generated = assert_right(product(op, first, second, result, start), every=False)
    assert ("tl.dot" in generated.recipes[0].calls[0].source) == is_tiled


def test_factors_that_are_computed_count_as_far_as_the_depth_goes(context: Any) -> None:
    """exp of nothing would be one, beyond a depth of 20."""

    def grown(name: str, shape: str) -> str:
        maps = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>"
        return f"""
      %empty_{name} = tensor.empty() : tensor<{shape}>
      %grown_{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
          ins(%{name} : tensor<{shape}>) outs(%empty_{name} : tensor<{shape}>) {{
      ^bb0(%in: f32, %o: f32):
        %s = math.exp %in : f32
        linalg.yield %s : f32
      }} -> tensor<{shape}>"""

    module = region(f"""(%a: tensor<33x20xf32>, %b: tensor<20x17xf32>) -> tensor<33x17xf32> {{
      %c = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<33x17xf32>
      %z = linalg.fill ins(%c : f32) outs(%e : tensor<33x17xf32>) -> tensor<33x17xf32>
      {grown("a", "33x20xf32")} {grown("b", "20x17xf32")}
      %0 = linalg.matmul ins(%grown_a, %grown_b : tensor<33x20xf32>, tensor<20x17xf32>)
          outs(%z : tensor<33x17xf32>) -> tensor<33x17xf32>
      return %0 : tensor<33x17xf32>
    }}""")
    generated = assert_right(module)
    assert "tl.dot" in generated.recipes[0].calls[0].source


def test_convolutions(context: Any) -> None:
    strides = "{dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}"
    module = product("linalg.conv_2d_nchw_fchw", "2x3x9x9xf32", "8x3x3x3xf32", "2x8x4x4xf32", "0.5", strides)
    generated = assert_right(module, every=False)
    assert "tl.dot" in generated.recipes[0].calls[0].source


def test_a_convolution_reads_both_factors_turned(context: Any) -> None:
    """As the gradient of a convolution's filters does: over the batch, of images by gradients."""
    module = region("""(%x: tensor<6x9x8x7xbf16>, %dy: tensor<6x10x4x3xbf16>) -> tensor<9x10x2x3xbf16> {
      %c = arith.constant 0.0 : f32
      %xe = tensor.empty() : tensor<9x6x8x7xbf16>
      %xt = linalg.transpose ins(%x : tensor<6x9x8x7xbf16>) outs(%xe : tensor<9x6x8x7xbf16>) permutation = [1, 0, 2, 3]
      %de = tensor.empty() : tensor<10x6x4x3xbf16>
      %dt = linalg.transpose ins(%dy : tensor<6x10x4x3xbf16>) outs(%de : tensor<10x6x4x3xbf16>)
          permutation = [1, 0, 2, 3]
      %e = tensor.empty() : tensor<9x10x2x3xf32>
      %z = linalg.fill ins(%c : f32) outs(%e : tensor<9x10x2x3xf32>) -> tensor<9x10x2x3xf32>
      %0 = linalg.conv_2d_nchw_fchw {dilations = dense<2> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
          ins(%xt, %dt : tensor<9x6x8x7xbf16>, tensor<10x6x4x3xbf16>) outs(%z : tensor<9x10x2x3xf32>)
          -> tensor<9x10x2x3xf32>
      %n = tensor.empty() : tensor<9x10x2x3xbf16>
      %1 = linalg.generic {indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>,
          affine_map<(a, b, c, d) -> (a, b, c, d)>],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
          ins(%0 : tensor<9x10x2x3xf32>) outs(%n : tensor<9x10x2x3xbf16>) {
      ^bb0(%in: f32, %o: bf16):
        %s = arith.truncf %in : f32 to bf16
        linalg.yield %s : bf16
      } -> tensor<9x10x2x3xbf16>
      return %1 : tensor<9x10x2x3xbf16>
    }""")
    generated = assert_right(module, every=False)
    assert len(generated.recipes[0].calls) == 1 and "tl.dot" in generated.recipes[0].calls[0].source


def test_a_very_deep_product_is_summed_in_many_parts(context: Any) -> None:
    def programs(depth: int) -> int:
        module = product("linalg.matmul", f"64x{depth}xbf16", f"{depth}x64xbf16", "64x64xf32")
        return generate(regions_of(module)["region"]).recipes[0].calls[0].programs

    assert [programs(1 << each) for each in (12, 16, 18, 21)] == [8, 8, 16, 128]


def test_a_reduction_of_a_product_takes_two_launches(context: Any) -> None:
    module = region("""(%a: tensor<70x20xbf16>, %b: tensor<20x30xbf16>) -> (tensor<70xf32>, tensor<70x30xf32>) {
      %c = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<70x30xf32>
      %e1 = tensor.empty() : tensor<70xf32>
      %z = linalg.fill ins(%c : f32) outs(%e : tensor<70x30xf32>) -> tensor<70x30xf32>
      %z1 = linalg.fill ins(%c : f32) outs(%e1 : tensor<70xf32>) -> tensor<70xf32>
      %0 = linalg.matmul ins(%a, %b : tensor<70x20xbf16>, tensor<20x30xbf16>)
          outs(%z : tensor<70x30xf32>) -> tensor<70x30xf32>
      %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
          iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<70x30xf32>) outs(%z1 : tensor<70xf32>) {
      ^bb0(%in: f32, %o: f32):
        %s = arith.addf %in, %o : f32
        linalg.yield %s : f32
      } -> tensor<70xf32>
      %2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          ins(%0, %1 : tensor<70x30xf32>, tensor<70xf32>) outs(%e : tensor<70x30xf32>) {
      ^bb0(%in: f32, %total: f32, %o: f32):
        %s = arith.divf %in, %total : f32
        linalg.yield %s : f32
      } -> tensor<70x30xf32>
      return %1, %2 : tensor<70xf32>, tensor<70x30xf32>
    }""")
    generated = assert_right(module)
    assert len(generated.recipes[0].calls) == 2


def test_sums_that_wait_for_nothing_are_computed_at_once(context: Any) -> None:
    """Each element by both sums of its column: parts of both, their sums, and the elements."""
    text = """(%x: tensor<600x20xf32>) -> tensor<600x20xf32> {
      %c = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<20xf32>
      %z = linalg.fill ins(%c : f32) outs(%e : tensor<20xf32>) -> tensor<20xf32>"""
    for name, computed in (("s", "%a"), ("q", "%m")):
        text += f"""
      %{name} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
          iterator_types = ["reduction", "parallel"]}} ins(%x : tensor<600x20xf32>) outs(%z : tensor<20xf32>) {{
      ^bb0(%a: f32, %o: f32):
        %m = arith.mulf %a, %a : f32
        %t = arith.addf {computed}, %o : f32
        linalg.yield %t : f32
      }} -> tensor<20xf32>"""
    module = region(
        text
        + """
      %f = tensor.empty() : tensor<600x20xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
          affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          ins(%x, %s, %q : tensor<600x20xf32>, tensor<20xf32>, tensor<20xf32>) outs(%f : tensor<600x20xf32>) {
      ^bb0(%a: f32, %b: f32, %d: f32, %o: f32):
        %m = arith.mulf %a, %b : f32
        %t = arith.addf %m, %d : f32
        linalg.yield %t : f32
      } -> tensor<600x20xf32>
      return %y : tensor<600x20xf32>
    }"""
    )
    assert_right(module, every=False)
    assert len(generate(regions_of(module)["region"]).recipes[0].calls) == 3


def test_threads_sum_columns_of_their_own_where_there_are_many(context: Any) -> None:
    maps = "affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, k)>"
    module = sums("80x64x2048", maps, '"parallel", "reduction", "parallel"', "80x2048x", "arith.addf", "f32", "0.0")
    generated = generate(regions_of(module)["region"])
    assert "kept=256" in generated.labels[0] and len(generated.recipes[0].calls) == 1
    few = sums("4x64x20", maps, '"parallel", "reduction", "parallel"', "4x20x", "arith.addf", "f32", "0.0")
    assert not any("kept=256" in label for label in generate(regions_of(few)["region"]).labels)
