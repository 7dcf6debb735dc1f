"""Sums in f32 over whole operands become sums in f64 on a CPU; products of matrices do not."""

from __future__ import annotations

import pytest

from dmc._mlir import ir
from dmc.lowering.kernels.rewrites.widen_sums import WidenSums

LOOPS = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3xNxTYPE>, %init: tensor<3xTYPE>) -> (tensor<3xTYPE>, tensor<3xTYPE>) {
  %zero = arith.constant 0.0 : TYPE
  %none = tensor.empty() : tensor<3xTYPE>
  %start = linalg.fill ins(%zero : TYPE) outs(%none : tensor<3xTYPE>) -> tensor<3xTYPE>
  %r:2 = linalg.generic {indexing_maps = [#all, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3xNxTYPE>) outs(%start, %init : tensor<3xTYPE>, tensor<3xTYPE>) {
  ^bb0(%a: TYPE, %out: TYPE, %out2: TYPE):
    %s = arith.addf %a, %out : TYPE
    %t = arith.OP %out2, %a : TYPE
    linalg.yield %s, %t : TYPE, TYPE
  } -> (tensor<3xTYPE>, tensor<3xTYPE>)
  return %r#0, %r#1 : tensor<3xTYPE>, tensor<3xTYPE>
}
"""
PRODUCT = """
func.func @f(%x: tensor<9x16xf32>, %y: tensor<16x9xf32>, %init: tensor<9x9xf32>) -> tensor<9x9xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
      affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<9x16xf32>, tensor<16x9xf32>) outs(%init : tensor<9x9xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %p, %out : f32
    linalg.yield %s : f32
  } -> tensor<9x9xf32>
  return %r : tensor<9x9xf32>
}
"""


def _widened(text: str) -> str:
    module = ir.Module.parse(text)
    WidenSums().run(module)
    assert module.operation.verify()
    return str(module)


def _loops(op: str, kind: str = "f32", count: int = 9) -> str:
    return LOOPS.replace("OP", op).replace("TYPE", kind).replace("xNx", f"x{count}x")


@pytest.mark.usefixtures("context")
def test_sums_are_widened_beside_other_reductions() -> None:
    both, one = _widened(_loops("addf")), _widened(_loops("maximumf"))
    assert both.count("arith.addf") == 2 and both.count(": f64\n") >= 2 and "tensor<3xf64>, tensor<3xf64>" in both
    assert "-> (tensor<3xf64>, tensor<3xf32>)" in one and one.count("arith.truncf") == 1
    # A fill begins in f64; other initial values are extended.
    assert "linalg.fill" in both and "arith.extf %arg1 : tensor<3xf32> to tensor<3xf64>" in both


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    "text",
    [_loops("mulf").replace("addf", "mulf"), _loops("addf", kind="f64"), _loops("addf", count=8), PRODUCT],
    ids=["products", "f64", "few", "matrices"],
)
def test_others_are_left(text: str) -> None:
    assert _widened(text) == str(ir.Module.parse(text))
