"""Powers of e and 2 on a CPU: infinite where they overflow, before anything is added to them."""

from __future__ import annotations

from typing import Any

import pytest

from dmc._mlir import ir
from dmc.lowering.kernels.rewrites.overflow_powers import OverflowPowers

LOOP = """
func.func @f(%x: tensor<4xf32>, %init: tensor<RESULTxf32>) -> tensor<RESULTxf32> {
  %two = arith.constant 2.0 : f32
  %r = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (MAP)>], iterator_types = ["KIND"]}
      ins(%x : tensor<4xf32>) outs(%init : tensor<RESULTxf32>) {
  ^bb0(%in: f32, %out: f32):
    %power = POWER : f32
    %sum = arith.OP %power, %other : f32
    linalg.yield %sum : f32
  } -> tensor<RESULTxf32>
  return %r : tensor<RESULTxf32>
}
"""


def _guarded(context: Any, power: str, op: str, other: str, result: str, place: str, kind: str) -> str:
    text = LOOP.replace("POWER", power).replace("OP", op).replace("%other", other)
    text = text.replace("RESULT", result).replace("MAP", place).replace("KIND", kind)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text.replace("tensor<xf32>", "tensor<f32>"))
        OverflowPowers().run(module)
        assert module.operation.verify()
        return str(module)


@pytest.mark.parametrize(
    ("power", "largest"),
    [("math.exp %in", "88.7228"), ("math.exp2 %in", "127.999992"), ("math.powf %two, %in", "127.999992")],
)
def test_a_power_that_is_added_to_is_infinite(context: Any, power: str, largest: str) -> None:
    text = _guarded(context, power, "subf", "%in", "4", "i", "parallel")
    (limit,) = [line.split()[0] for line in text.splitlines() if f"arith.constant {largest}" in line]
    (compared,) = [line.split()[0] for line in text.splitlines() if f"arith.cmpf ogt, %in, {limit}" in line]
    (chosen,) = [line.split()[0] for line in text.splitlines() if f"arith.select {compared}, " in line]
    assert f"arith.subf {chosen}, %in" in text


ELEMENTS = """
func.func @f(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %r = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x, %z : tensor<4xf32>, tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%in: f32, %other: f32, %out: f32):
    %power = math.exp %in : f32
    %sum = arith.addf %power, %other : f32
    linalg.yield %sum : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


@pytest.mark.usefixtures("context")
def test_what_a_kernel_reads_may_be_negative_infinity() -> None:
    module = ir.Module.parse(ELEMENTS)
    OverflowPowers().run(module)
    assert "arith.select" in str(module)


def test_a_sum_of_powers_needs_nothing(context: Any) -> None:
    assert "select" not in _guarded(context, "math.exp %in", "addf", "%out", "", "", "reduction")


def test_other_powers_are_left(context: Any) -> None:
    assert "select" not in _guarded(context, "math.powf %in, %two", "subf", "%in", "4", "i", "parallel")
