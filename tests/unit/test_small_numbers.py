"""Powers that are subnormal on a CPU, and logarithms of subnormal numbers, go by way of normal ones."""

from __future__ import annotations

import re

import pytest

from dmc._mlir import ir
from dmc.lowering.kernels.rewrites.keep_small_numbers import KeepSmallNumbers

LOOP = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = arith.constant 2.0 : f32
  %r = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %y = FUNCTION : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


def _kept(function: str) -> str:
    module = ir.Module.parse(LOOP.replace("FUNCTION", function))
    KeepSmallNumbers().run(module)
    assert module.operation.verify()
    return str(module)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    ("function", "moved", "back"),
    [
        ("math.exp %in", "addf %in", "mulf"),
        ("math.exp2 %in", "addf %in", "mulf"),
        ("math.powf %two, %in", "addf %in", "mulf"),
        ("math.log %in", "mulf %in", "addf"),
        ("math.log2 %in", "mulf %in", "addf"),
    ],
)
def test_small_numbers_are_moved_there_and_back(function: str, moved: str, back: str) -> None:
    text = _kept(function)
    name = function.split(maxsplit=1)[0]
    (shifted,) = re.findall(rf"(%\w+) = arith\.{moved}, ", text)
    (chosen,) = re.findall(rf"(%\w+) = arith\.select %\w+, {shifted}, %in ", text)
    (made,) = re.findall(rf"(%\w+) = {name} (?:%\w+, )?{chosen} ", text)
    (result,) = re.findall(rf"(%\w+) = arith\.{back} {made}, ", text)
    assert f"linalg.yield {result} " in text


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("function", ["math.powf %in, %two", "math.tanh %in"])
def test_other_functions_are_left(function: str) -> None:
    assert "arith.select" not in _kept(function)
