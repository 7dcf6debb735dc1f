"""Padding and windows that every reader computes itself are not kernels, where dmc generates the code."""

from __future__ import annotations

from typing import Any

import pytest

from dmc._mlir import ir
from dmc.analysis.kernels.graph import Kind, step_graph
from dmc.step_function import find_step

TEXT = """
#read = affine_map<(i, j, n, f, k, l, c) -> (i + k, j + l, n, c)>
#filter = affine_map<(i, j, n, f, k, l, c) -> (k, l, f, c)>
#sum = affine_map<(i, j, n, f, k, l, c) -> (i, j, n, f)>
#same = affine_map<(i, j, n, c) -> (i, j, n, c)>
func.func @step(%x: tensor<4x4x2x8xf32>, %w: tensor<3x3x8x8xf32>) -> (tensor<4x4x2x8xf32>, tensor<4x4x2x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %for_convolution = tensor.pad %x low[1, 1, 0, 0] high[1, 1, 0, 0] {
    ^bb0(%a: index, %b: index, %c: index, %d: index):
      tensor.yield %zero : f32
  } : tensor<4x4x2x8xf32> to tensor<6x6x2x8xf32>
  %e = tensor.empty() : tensor<4x4x2x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4x2x8xf32>) -> tensor<4x4x2x8xf32>
  %y = linalg.generic {indexing_maps = [#read, #filter, #sum], iterator_types = ["parallel", "parallel", "parallel",
      "parallel", "reduction", "reduction", "reduction"]}
      ins(%for_convolution, %w : tensor<6x6x2x8xf32>, tensor<3x3x8x8xf32>) outs(%z : tensor<4x4x2x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %c, %p : f32
      linalg.yield %s : f32
  } -> tensor<4x4x2x8xf32>
  %for_pool = tensor.pad %y low[1, 0, 0, 0] high[0, 0, 0, 0] {
    ^bb0(%a: index, %b: index, %c: index, %d: index):
      tensor.yield %zero : f32
  } : tensor<4x4x2x8xf32> to tensor<5x4x2x8xf32>
  %window = tensor.extract_slice %for_pool[0, 0, 0, 0] [4, 4, 2, 8] [1, 1, 1, 1]
      : tensor<5x4x2x8xf32> to tensor<4x4x2x8xf32>
  %m = linalg.generic {indexing_maps = [#same, #same, #same],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%y, %window : tensor<4x4x2x8xf32>, tensor<4x4x2x8xf32>) outs(%e : tensor<4x4x2x8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.maximumf %a, %b : f32
      linalg.yield %p : f32
  } -> tensor<4x4x2x8xf32>
  return %y, %m : tensor<4x4x2x8xf32>, tensor<4x4x2x8xf32>
}
"""


@pytest.mark.parametrize("own", [True, False])
def test_padding_is_part_of_its_readers(context: Any, own: bool) -> None:
    module = ir.Module.parse(TEXT, context)
    assert _kinds(module, "tensor.pad", own) == [Kind.INLINED if own else Kind.COMPUTE] * 2
    # A piece of memory, if there is any.
    assert _kinds(module, "tensor.extract_slice", own) == [Kind.INLINED if own else Kind.VIEW]


def test_what_another_operation_reads_is_in_memory(context: Any) -> None:
    text = TEXT.replace("-> (tensor<4x4x2x8xf32>,", "-> (tensor<6x6x2x8xf32>,")
    text = text.replace("return %y, %m : tensor<4x4x2x8xf32>", "return %for_convolution, %m : tensor<6x6x2x8xf32>")
    module = ir.Module.parse(text, context)
    assert _kinds(module, "tensor.pad", own=True) == [Kind.COMPUTE, Kind.INLINED]


def _kinds(module: ir.Module, name: str, own: bool) -> list[Kind]:
    graph = step_graph(find_step(module), own)
    return [kind for op, kind in zip(graph.ops, graph.kinds, strict=True) if op.name == name]
