"""Counting operations in text gives what MLIR counts."""

from __future__ import annotations

from collections import Counter

from dmc._mlir import ir
from dmc.cli.ops import count_composites, count_ops
from dmc.walk import walk

TEXT = """
#map = affine_map<(d0, d1) -> (d0, d1)>
module attributes {"dm.x" = "%0 = arith.fake"} {
  func.func private @body(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %arg0 : tensor<4xf32>
  }
  func.func @step(%arg0: tensor<4x4xf32> {dm.name = "a.b", dm.role = "parameter"},
                  %arg1: tensor<4xf32>, %n: index) -> (tensor<4x4xf32>, tensor<4xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %big = arith.constant dense<"0x00000000000000000000000000000000"> : tensor<4xf32>
    %0 = tensor.empty() : tensor<4x4xf32>
    %1:2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]}
        ins(%arg0 : tensor<4x4xf32>) outs(%0, %0 : tensor<4x4xf32>, tensor<4x4xf32>) {
    ^bb0(%in: f32, %out: f32, %out_0: f32):
      %5 = arith.mulf %in, %cst : f32
      %6 = math.exp %5 : f32
      linalg.yield %5, %6 : f32, f32
    } -> (tensor<4x4xf32>, tensor<4x4xf32>)
    %2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %1#1) -> (tensor<4x4xf32>) {
      %7 = arith.addf %acc, %1#0 : tensor<4x4xf32>
      scf.yield %7 : tensor<4x4xf32>
    }
    %3 = func.call @body(%arg1) : (tensor<4xf32>) -> tensor<4xf32>
    %4, %8 = "test.two"(%3) ({
      %9 = "test.inner"() : () -> f32
      "test.done"(%9) : (f32) -> ()
    }) {kind = "not a composite"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %2, %4 : tensor<4x4xf32>, tensor<4xf32>
  }
}
"""


def test_counts_are_those_of_mlir() -> None:
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(TEXT)
        expected = Counter(op.name for op in walk(module.operation))
        pretty = str(module)
        generic = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    assert count_ops(TEXT) == dict(expected)
    assert count_ops(pretty) == dict(expected)
    assert count_ops(generic) == dict(expected)


def test_most_frequent_first() -> None:
    assert list(count_ops(TEXT).items())[:2] == [("arith.constant", 4), ("func.func", 2)]


def test_composites_by_kind() -> None:
    text = """
    %0 = "dm.composite"(%a, %b) {decomposition = @f, kind = "layer_norm", parameters = {eps = 1.0 : f64}} : (T, T) -> T
    %1:2 = "dm.composite"(%0) <{decomposition = @g, kind = "gelu"}> : (f32) -> (f32, f32)
    %2 = "dm.composite"(%0) <{decomposition = @g, kind = "gelu"}> : (f32) -> f32
    %3 = "test.other"(%0) {kind = "softmax"} : (f32) -> f32
    """
    assert count_composites(text) == {"gelu": 2, "layer_norm": 1}
    assert count_ops(text) == {"dm.composite": 3, "test.other": 1}
