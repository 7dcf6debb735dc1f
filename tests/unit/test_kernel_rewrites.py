"""Rounding to bf16 that kernels for a CPU keep: of what is read, in bits, and of integers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dmc._mlir import ir
from dmc.lowering.iree.compiler import run_iree
from dmc.lowering.kernels.rewrites.keep_rounding import KeepRounding
from dmc.target import target

Check = Callable[[ir.Module], None]
ELEMENTWISE = """linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
  iterator_types = ["parallel"]}} ins(%{0} : tensor<4x{1}>) outs(%{3} : tensor<4x{3}>) {{
  ^bb0(%in: {1}, %out: {3}):
    {2}
    linalg.yield %cast : {3}
  }} -> tensor<4x{3}>"""


def _elementwise(operand: str, kind: str, body: str, result: str) -> str:
    return ELEMENTWISE.format(operand, kind, body, result)


NARROWED = _elementwise("x", "f32", "%cast = arith.truncf %in : f32 to bf16", "bf16")
WIDENED = _elementwise("a", "bf16", "%cast = arith.extf %in : bf16 to f32", "f32")
HALVED = _elementwise(
    "x", "f32", "%half = arith.truncf %in : f32 to f16\n    %cast = arith.extf %half : f16 to f32", "f32"
)


def test_a_rounded_number_that_is_read(context: ir.Context, filecheck: Check) -> None:
    # IREE would join the two loops, and leave out both casts.
    module = ir.Module.parse(f"""
    func.func @read(%x: tensor<4xf32>, %bf16: tensor<4xbf16>, %f32: tensor<4xf32>) -> tensor<4xf32> {{
      %a = {NARROWED}
      %b = {WIDENED}
      return %b : tensor<4xf32>
    }}""")
    KeepRounding().run(module)
    # CHECK-LABEL: func.func @read
    # CHECK: %[[BITS:.+]] = arith.bitcast %[[X:.+]] : f32 to i32
    # CHECK: %[[UP:.+]] = arith.addi %[[BITS]], %{{.+}} : i32
    # CHECK: %[[NEAREST:.+]] = arith.addi %[[UP]], %{{.+}} : i32
    # CHECK: %[[NAN:.+]] = arith.cmpf uno, %[[X]], %[[X]] : f32
    # CHECK: %[[HIGH:.+]] = arith.shrui %[[NEAREST]], %{{.+}} : i32
    # CHECK: %[[WORD:.+]] = arith.select %[[NAN]], %{{.+}}, %[[HIGH]] : i32
    # CHECK: %[[HALF:.+]] = arith.trunci %[[WORD]] : i32 to i16
    # CHECK: %[[ROUNDED:.+]] = arith.bitcast %[[HALF]] : i16 to bf16
    # CHECK: linalg.yield %[[ROUNDED]]
    # CHECK-NOT: arith.truncf
    # CHECK: return
    filecheck(module)


def test_casts_that_are_left_alone(context: ir.Context, filecheck: Check) -> None:
    # Memory holds a rounded number in any case, and IREE keeps casts of other types.
    module = ir.Module.parse(f"""
    func.func @left_alone(%x: tensor<4xf32>, %bf16: tensor<4xbf16>, %f32: tensor<4xf32>)
        -> (tensor<4xbf16>, tensor<4xf32>) {{
      %a = {NARROWED}
      %b = {HALVED}
      return %a, %b : tensor<4xbf16>, tensor<4xf32>
    }}""")
    KeepRounding().run(module)
    # CHECK-LABEL: func.func @left_alone
    # CHECK: arith.truncf %{{.+}} : f32 to bf16
    # CHECK: arith.truncf %{{.+}} : f32 to f16
    # CHECK-NOT: arith.bitcast
    # CHECK: return
    filecheck(module)


def test_a_number_is_rounded_at_once(context: ir.Context, filecheck: Check) -> None:
    # IREE would continue with the original.
    body = (
        "%n = arith.constant 1.3 : f64\n%number = arith.truncf %n : f64 to bf16\n%cast = arith.addf %in, %number : bf16"
    )
    module = ir.Module.parse(f"""
    func.func @number(%x: tensor<4xbf16>, %bf16: tensor<4xbf16>) -> tensor<4xbf16> {{
      %a = {_elementwise("x", "bf16", body, "bf16")}
      return %a : tensor<4xbf16>
    }}""")
    KeepRounding().run(module)
    # CHECK-LABEL: func.func @number
    # CHECK: arith.constant 1.296880e+00 : bf16
    # CHECK-NOT: arith.truncf {{.*}} : f64
    # CHECK: return
    filecheck(module)


@pytest.mark.parametrize("kind", ["i1", "i8", "i64"])
def test_integers_are_converted_in_bits(kind: str, context: ir.Context, filecheck: Check) -> None:
    body = f"%cast = arith.uitofp %in : {kind} to bf16"
    module = ir.Module.parse(f"""
    func.func @converted(%x: tensor<4x{kind}>, %bf16: tensor<4xbf16>) -> tensor<4xbf16> {{
      %a = {_elementwise("x", kind, body, "bf16")}
      return %a : tensor<4xbf16>
    }}""")
    KeepRounding().run(module)
    # CHECK-LABEL: func.func @converted
    # CHECK: %[[WIDE:.+]] = arith.uitofp %{{.+}} to f32
    # CHECK: %[[BITS:.+]] = arith.bitcast %[[WIDE]] : f32 to i32
    # CHECK: arith.trunci %{{.+}} : i32 to i16
    # CHECK-NOT: arith.truncf
    # CHECK: return
    filecheck(module)
    # Linked without LLVM's own function for it, which processors without bfloat16 need.
    run_iree(str(module).encode(), target("cpu:x86-64-v3"))
