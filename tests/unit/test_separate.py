"""Kernels whose operations are compiled one by one: every loop has one result."""

from __future__ import annotations

from typing import Any

from dmc._mlir import ir
from dmc.lowering.kernels.separate import separate_operations
from dmc.walk import walk

TEXT = """
func.func @both(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %empty = tensor.empty() : tensor<4xf32>
  %r:2 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%empty, %empty : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32, %out2: f32):
    %double = arith.addf %in, %in : f32
    %square = arith.mulf %double, %double : f32
    linalg.yield %double, %square : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  return %r#1, %r#0 : tensor<4xf32>, tensor<4xf32>
}
"""


def test_a_loop_with_two_results_becomes_two(context: Any) -> None:
    with context, ir.Location.unknown():
        separated = separate_operations(TEXT)
        module = ir.Module.parse(separated)
        first, second = [op for op in walk(module.operation) if op.name == "linalg.generic"]
        (returned,) = [op for op in walk(module.operation) if op.name == "func.return"]
        assert [len(op.results) for op in (first, second)] == [1, 1]
        assert list(returned.operands) == [second.results[0], first.results[0]]
        yields = [op.regions[0].blocks[0].operations[-1].operands for op in (first, second)]
        assert [[value.owner.name for value in values] for values in yields] == [["arith.addf"], ["arith.mulf"]]


def test_a_loop_whose_results_depend_on_each_other_stays_whole(context: Any) -> None:
    largest = TEXT.replace("%double = arith.addf %in, %in", "%double = arith.addf %in, %out2")
    with context, ir.Location.unknown():
        module = ir.Module.parse(separate_operations(largest))
        (loop,) = [op for op in walk(module.operation) if op.name == "linalg.generic"]
        assert len(loop.results) == 2
