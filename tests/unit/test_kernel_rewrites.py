"""What kernels for a CPU are changed to before IREE takes them: rounding that is kept, transposes made once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dmc._mlir import ir
from dmc.lowering.iree import run_iree
from dmc.lowering.rounding import keep_rounding
from dmc.lowering.transposes import isolate_transposes
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
    keep_rounding(module)
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
    keep_rounding(module)
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
    keep_rounding(module)
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
    keep_rounding(module)
    # CHECK-LABEL: func.func @converted
    # CHECK: %[[WIDE:.+]] = arith.uitofp %{{.+}} to f32
    # CHECK: %[[BITS:.+]] = arith.bitcast %[[WIDE]] : f32 to i32
    # CHECK: arith.trunci %{{.+}} : i32 to i16
    # CHECK-NOT: arith.truncf
    # CHECK: return
    filecheck(module)
    # Linked without LLVM's own function for it, which processors without bfloat16 need.
    run_iree(str(module).encode(), target("cpu:x86-64-v3"))


def _product(name: str, rows: int) -> str:
    """`rows` rows times a transposed matrix, twice."""
    x, out = f"tensor<{rows}x8xf32>", f"tensor<{rows}x4xf32>"
    product = f"linalg.matmul ins(%x, %t : {x}, tensor<8x4xf32>) outs(%out : {out}) -> {out}"
    return f"""
    func.func @{name}(%x: {x}, %w: tensor<4x8xf32>, %e: tensor<8x4xf32>, %out: {out}) -> ({out}, {out}) {{
      %t = linalg.transpose ins(%w : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
      %a = {product}
      %b = {product}
      return %a, %b : {out}, {out}
    }}"""


def test_two_products_share_one_transposed_matrix(context: ir.Context, filecheck: Check) -> None:
    module = ir.Module.parse(_product("right", 64))
    isolate_transposes(module)
    # CHECK-LABEL: func.func @right
    # CHECK: %[[T:.+]] = linalg.transpose
    # CHECK: %[[BARRIER:.+]] = "iree_tensor_ext.compute_barrier_start"(%[[T]])
    # CHECK-NOT: compute_barrier_start
    # CHECK: linalg.matmul ins(%{{.+}}, %[[BARRIER]]
    # CHECK: linalg.matmul ins(%{{.+}}, %[[BARRIER]]
    filecheck(module)


def test_products_that_are_left_alone(context: ir.Context, filecheck: Check) -> None:
    # On the left a matrix is read along its rows all the same, and few rows read the other few times.
    module = ir.Module.parse(f"""{_product("few_rows", 63)}
    func.func @left(%x: tensor<8x64xf32>, %w: tensor<8x4xf32>, %e: tensor<64x8xf32>, %out: tensor<64x4xf32>)
        -> tensor<64x4xf32> {{
      %t = linalg.transpose ins(%x : tensor<8x64xf32>) outs(%e : tensor<64x8xf32>) permutation = [1, 0]
      %a = linalg.matmul ins(%t, %w : tensor<64x8xf32>, tensor<8x4xf32>) outs(%out : tensor<64x4xf32>)
        -> tensor<64x4xf32>
      return %a : tensor<64x4xf32>
    }}""")
    isolate_transposes(module)
    # CHECK-LABEL: func.func @few_rows
    # CHECK-NOT: compute_barrier_start
    # CHECK-LABEL: func.func @left
    # CHECK-NOT: compute_barrier_start
    # CHECK: return
    filecheck(module)
