"""Reductions of what no operand decides read memory along what they reduce."""

from __future__ import annotations

import pytest

from dmc._mlir import ir
from dmc.lowering.kernels.rewrites.read_constant_terms import ReadConstantTerms
from dmc.walk import walk

LOOP = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3x4xf32>, %init: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %two = arith.constant dense<2.0> : tensor<3x4xf32>
  %empty = tensor.empty() : tensor<3x4xf32>
  %terms:2 = linalg.generic {indexing_maps = [#all, #all, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %two : tensor<3x4xf32>, tensor<3x4xf32>) outs(%empty, %empty : tensor<3x4xf32>, tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32, %out2: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %range = arith.sitofp %j : i32 to f32
    %product = arith.mulf %a, %b : f32
    %weight = arith.mulf %range, %b : f32
    linalg.yield %product, %weight : f32, f32
  } -> (tensor<3x4xf32>, tensor<3x4xf32>)
  %zero = arith.constant 0.0 : f32
  %none = tensor.empty() : tensor<3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%none : tensor<3xf32>) -> tensor<3xf32>
  %r:2 = linalg.generic {indexing_maps = [#all, #all, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%terms#0, TERM : tensor<3x4xf32>, tensor<3x4xf32>) outs(%start, %start : tensor<3xf32>, tensor<3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32, %out2: f32):
    %s = arith.addf %a, %out : f32
    %t = arith.addf %out2, %b : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<3xf32>, tensor<3xf32>)
  return %r#0, %r#1 : tensor<3xf32>, tensor<3xf32>
}
"""


def _last_loop(term: str) -> str:
    module = ir.Module.parse(LOOP.replace("TERM", term))
    ReadConstantTerms().run(module)
    assert module.operation.verify()
    *_, loop = [op for op in walk(module.operation) if op.name == "linalg.generic"]
    return str(loop)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("term", ["%terms#1", "%two"])
def test_terms_without_operands_read_zeros(term: str) -> None:
    text = _last_loop(term)
    (chosen,) = [line.split()[0] for line in text.splitlines() if "arith.select" in line]
    assert [line for line in text.splitlines() if "arith.addf" in line and line.split()[-3] == chosen]
    assert "tensor<4xi8>" in text


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("term", ["%terms#0", "%x"])
def test_terms_of_an_argument_are_left(term: str) -> None:
    assert "arith.select" not in _last_loop(term)
