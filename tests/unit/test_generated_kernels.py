"""Generated kernels in Triton's interpreter, against the regions that they come from as numpy computes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dmc.kernels.generated import Declined, generate
from tests.generated_regions import assert_right, filled, region, regions_of

FEW = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

# Two results of each element, of which one is broadcast, gathered and rounded on its way.
POINTWISE = """(%x: tensor<$rx$cxf32>, %bias: tensor<$cxbf16>, %at: tensor<$rxi64>, %table: tensor<9x$cxf32>)
    -> (tensor<$rx$cxbf16>, tensor<$nxi1>) {
  %half = arith.constant 0.5 : f32
  %eight = arith.constant 8 : i64
  %zero = arith.constant 0 : i64
  %a = tensor.empty() : tensor<$rx$cxbf16>
  %b = tensor.empty() : tensor<$rx$cxi1>
  %0:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %bias, %at : tensor<$rx$cxf32>, tensor<$cxbf16>, tensor<$rxi64>)
      outs(%a, %b : tensor<$rx$cxbf16>, tensor<$rx$cxi1>) {
  ^bb0(%in: f32, %narrow: bf16, %place: i64, %o1: bf16, %o2: i1):
    %low = arith.maxsi %place, %zero : i64
    %clamped = arith.minsi %low, %eight : i64
    %row = arith.index_cast %clamped : i64 to index
    %column = linalg.index 1 : index
    %looked = tensor.extract %table[%row, %column] : tensor<9x$cxf32>
    %wide = arith.extf %narrow : bf16 to f32
    %sum = arith.addf %in, %wide : f32
    %more = arith.mulf %sum, %looked : f32
    %rounded = arith.truncf %more : f32 to bf16
    %twice = arith.addf %rounded, %narrow : bf16
    %holds = arith.cmpf ugt, %in, %half : f32
    linalg.yield %twice, %holds : bf16, i1
  } -> (tensor<$rx$cxbf16>, tensor<$rx$cxi1>)
  %flat = tensor.collapse_shape %0#1 [[0, 1]] : tensor<$rx$cxi1> into tensor<$nxi1>
  return %0#0, %flat : tensor<$rx$cxbf16>, tensor<$nxi1>
}"""

# Softmax with its logarithm and its rows' maxima; the place of the maximum is computed, but nobody wants it.
ROWS = """(%x: tensor<2x$rx$cxf32>, %gain: tensor<$cxf32>) -> (tensor<$nx$cxf32>, tensor<2x$rx1xf32>, tensor<2x$rx$cxf32>) {
  %least = arith.constant 0xFF800000 : f32
  %none = arith.constant 0.0 : f32
  %first = arith.constant 0 : i64
  %e = tensor.empty() : tensor<2x$rxf32>
  %ei = tensor.empty() : tensor<2x$rxi64>
  %full = tensor.empty() : tensor<2x$rx$cxf32>
  %m0 = linalg.fill ins(%least : f32) outs(%e : tensor<2x$rxf32>) -> tensor<2x$rxf32>
  %i0 = linalg.fill ins(%first : i64) outs(%ei : tensor<2x$rxi64>) -> tensor<2x$rxi64>
  %s0 = linalg.fill ins(%none : f32) outs(%e : tensor<2x$rxf32>) -> tensor<2x$rxf32>
  %peak:2 = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>,
      affine_map<(b, i, j) -> (b, i)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<2x$rx$cxf32>) outs(%m0, %i0 : tensor<2x$rxf32>, tensor<2x$rxi64>) {
  ^bb0(%in: f32, %m: f32, %i: i64):
    %j = linalg.index 2 : index
    %j64 = arith.index_cast %j : index to i64
    %max = arith.maximumf %in, %m : f32
    %larger = arith.cmpf ogt, %in, %m : f32
    %where = arith.select %larger, %j64, %i : i64
    linalg.yield %max, %where : f32, i64
  } -> (tensor<2x$rxf32>, tensor<2x$rxi64>)
  %powers = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>,
      affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %peak#0 : tensor<2x$rx$cxf32>, tensor<2x$rxf32>) outs(%full : tensor<2x$rx$cxf32>) {
  ^bb0(%in: f32, %m: f32, %o: f32):
    %d = arith.subf %in, %m : f32
    %p = math.exp %d : f32
    linalg.yield %p : f32
  } -> tensor<2x$rx$cxf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%powers : tensor<2x$rx$cxf32>) outs(%s0 : tensor<2x$rxf32>) {
  ^bb0(%in: f32, %o: f32):
    %s = arith.addf %in, %o : f32
    linalg.yield %s : f32
  } -> tensor<2x$rxf32>
  %parts:2 = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i)>,
      affine_map<(b, i, j) -> (j)>, affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%powers, %sum, %gain :
      tensor<2x$rx$cxf32>, tensor<2x$rxf32>, tensor<$cxf32>) outs(%full, %full : tensor<2x$rx$cxf32>, tensor<2x$rx$cxf32>) {
  ^bb0(%in: f32, %total: f32, %g: f32, %o1: f32, %o2: f32):
    %q = arith.divf %in, %total : f32
    %gained = arith.mulf %q, %g : f32
    linalg.yield %q, %gained : f32, f32
  } -> (tensor<2x$rx$cxf32>, tensor<2x$rx$cxf32>)
  %rows = tensor.collapse_shape %parts#0 [[0, 1], [2]] : tensor<2x$rx$cxf32> into tensor<$nx$cxf32>
  %peaks = tensor.expand_shape %peak#0 [[0], [1, 2]] output_shape [2, $r, 1] : tensor<2x$rxf32> into tensor<2x$rx1xf32>
  return %rows, %peaks, %parts#1 : tensor<$nx$cxf32>, tensor<2x$rx1xf32>, tensor<2x$rx$cxf32>
}"""

# Gradients of a gain and of a bias: two sums over rows, of which one is rounded; the product itself is wanted, too.
COLUMNS = """(%x: tensor<$rx$cxf32>, %y: tensor<$rx$cxbf16>) -> (tensor<$cxbf16>, tensor<1x$cxf32>, tensor<$rx$cxf32>) {
  %none = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<$cxf32>
  %full = tensor.empty() : tensor<$rx$cxf32>
  %s0 = linalg.fill ins(%none : f32) outs(%e : tensor<$cxf32>) -> tensor<$cxf32>
  %s1 = linalg.fill ins(%one : f32) outs(%e : tensor<$cxf32>) -> tensor<$cxf32>
  %product = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<$rx$cxf32>, tensor<$rx$cxbf16>) outs(%full : tensor<$rx$cxf32>) {
  ^bb0(%a: f32, %b: bf16, %o: f32):
    %wide = arith.extf %b : bf16 to f32
    %p = arith.mulf %a, %wide : f32
    linalg.yield %p : f32
  } -> tensor<$rx$cxf32>
  %sums:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%product, %x : tensor<$rx$cxf32>, tensor<$rx$cxf32>) outs(%s0, %s1 : tensor<$cxf32>, tensor<$cxf32>) {
  ^bb0(%a: f32, %b: f32, %o1: f32, %o2: f32):
    %p = arith.addf %a, %o1 : f32
    %q = arith.addf %o2, %b : f32
    linalg.yield %p, %q : f32, f32
  } -> (tensor<$cxf32>, tensor<$cxf32>)
  %n = tensor.empty() : tensor<$cxbf16>
  %narrow = linalg.generic {indexing_maps = [affine_map<(j) -> (j)>, affine_map<(j) -> (j)>], iterator_types = ["parallel"]}
      ins(%sums#0 : tensor<$cxf32>) outs(%n : tensor<$cxbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %t = arith.truncf %a : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<$cxbf16>
  %wide = tensor.expand_shape %sums#1 [[0, 1]] output_shape [1, $c] : tensor<$cxf32> into tensor<1x$cxf32>
  return %narrow, %wide, %product : tensor<$cxbf16>, tensor<1x$cxf32>, tensor<$rx$cxf32>
}"""

# A product with a transposed factor and one that is widened; what comes of it in two types and shapes.
PRODUCT = """(%a: tensor<$kx$mx$type>, %b: tensor<$kx$nx$type>, %bias: tensor<$nxf32>, %old: tensor<1x$mx$nxf32>)
    -> (tensor<1x$mx$nxf32>, tensor<$mx$nx$type>) {
  %none = arith.constant 0.0 : f32
  %ea = tensor.empty() : tensor<$mx$kx$type>
  %ew = tensor.empty() : tensor<$mx$kxf32>
  %eb = tensor.empty() : tensor<$kx$nxf32>
  %e = tensor.empty() : tensor<$mx$nxf32>
  %en = tensor.empty() : tensor<$mx$nx$type>
  %e3 = tensor.empty() : tensor<1x$mx$nxf32>
  %turned = linalg.transpose ins(%a : tensor<$kx$mx$type>) outs(%ea : tensor<$mx$kx$type>) permutation = [1, 0]
  %wa = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%turned : tensor<$mx$kx$type>) outs(%ew : tensor<$mx$kxf32>) {
  ^bb0(%in: $type, %o: f32):
    %w = arith.extf %in : $type to f32
    linalg.yield %w : f32
  } -> tensor<$mx$kxf32>
  %wb = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%b : tensor<$kx$nx$type>) outs(%eb : tensor<$kx$nxf32>) {
  ^bb0(%in: $type, %o: f32):
    %w = arith.extf %in : $type to f32
    linalg.yield %w : f32
  } -> tensor<$kx$nxf32>
  %z = linalg.fill ins(%none : f32) outs(%e : tensor<$mx$nxf32>) -> tensor<$mx$nxf32>
  %p = linalg.matmul ins(%wa, %wb : tensor<$mx$kxf32>, tensor<$kx$nxf32>) outs(%z : tensor<$mx$nxf32>) -> tensor<$mx$nxf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<$mx$nxf32>, tensor<$nxf32>) outs(%en : tensor<$mx$nx$type>) {
  ^bb0(%in: f32, %c: f32, %o: $type):
    %s = arith.addf %in, %c : f32
    %t = arith.truncf %s : f32 to $type
    linalg.yield %t : $type
  } -> tensor<$mx$nx$type>
  %three = tensor.expand_shape %n [[0, 1], [2]] output_shape [1, $m, $n] : tensor<$mx$nx$type> into tensor<1x$mx$nx$type>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>,
      affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%three, %old : tensor<1x$mx$nx$type>, tensor<1x$mx$nxf32>) outs(%e3 : tensor<1x$mx$nxf32>) {
  ^bb0(%in: $type, %c: f32, %o: f32):
    %w = arith.extf %in : $type to f32
    %g = math.tanh %w : f32
    %s = arith.addf %g, %c : f32
    linalg.yield %s : f32
  } -> tensor<1x$mx$nxf32>
  return %r, %n : tensor<1x$mx$nxf32>, tensor<$mx$nx$type>
}"""


def shaped(text: str, rows: int, columns: int, batches: int = 1) -> Any:
    return region(filled(text, r=rows, c=columns, n=rows * (columns if text is POINTWISE else batches)))


@FEW
@given(st.integers(1, 70), st.integers(1, 70), st.booleans())
def test_elements(context: Any, rows: int, columns: int, special: bool) -> None:
    assert_right(shaped(POINTWISE, rows, columns), special=special)


@FEW
@given(st.integers(32, 70), st.sampled_from([2, 3, 64, 100, 600]), st.booleans())
def test_rows(context: Any, rows: int, columns: int, special: bool) -> None:
    generated = assert_right(shaped(ROWS, rows, columns, 2), special=special)
    assert all(len(recipe.calls) == 1 for recipe in generated.recipes)


def test_rows_that_do_not_fit(context: Any) -> None:
    generated = assert_right(shaped(ROWS, 32, 9000, 2), every=False, special=True)
    assert "for start" in generated.recipes[0].calls[0].source


def test_few_rows_that_wait_for_another_reduction(context: Any) -> None:
    assert_right(shaped(ROWS, 2, 30, 2))


@FEW
@given(st.sampled_from([1, 5, 64, 300]), st.sampled_from([1, 3, 64, 70]), st.booleans())
def test_columns(context: Any, rows: int, columns: int, special: bool) -> None:
    assert_right(shaped(COLUMNS, rows, columns), special=special)


def test_columns_shared_by_programs(context: Any) -> None:
    generated = assert_right(shaped(COLUMNS, 700, 5))
    assert all(len(recipe.calls) == 2 and len(recipe.scratch) == 2 for recipe in generated.recipes)


@FEW
@given(st.sampled_from([(4, 4, 8), (33, 70, 20), (130, 257, 70), (64, 64, 64)]), st.sampled_from(["bf16", "f16"]))
def test_products(context: Any, sizes: tuple[int, int, int], dtype: str) -> None:
    rows, columns, depth = sizes
    generated = assert_right(region(filled(PRODUCT, m=rows, n=columns, k=depth, type=dtype)))
    source = generated.recipes[0].calls[0].source
    assert "tl.dot(" in source and "ieee" not in source, "narrow factors stay narrow"
    assert (0, 3) in generated.recipes[0].in_place


def test_products_that_are_split_along_their_depth(context: Any) -> None:
    generated = assert_right(region(filled(PRODUCT, m=20, n=70, k=1100, type="bf16")), special=True)
    assert len(generated.recipes[0].calls) == 2 and generated.recipes[0].scratch[0].shape == (2, 20, 70)


def test_equal_regions_give_equal_sources(context: Any) -> None:
    text = filled(PRODUCT, m=64, n=64, k=64, type="bf16")
    modules = [region(text) for _ in range(2)]
    one, other = (generate(regions_of(module)["region"]) for module in modules)
    assert one == other


def test_what_is_not_generated_is_declined_with_its_reason(context: Any) -> None:
    module = region("""(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "dm.composite"(%x) {kind = "unknown", decomposition = @f, parameters = {}} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }""")
    with pytest.raises(Declined, match=r"dm\.composite of tensors"):
        generate(regions_of(module)["region"])
