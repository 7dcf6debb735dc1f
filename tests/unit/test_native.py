"""Kernels with code of dmc's own: which candidates are used, and that launches state alignment correctly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator

import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import ProofError
from dmc.lowering.cuda.device_code import device_code
from dmc.lowering.cuda.products import WORKSPACE, product_of
from dmc.lowering.implementations import code_for
from dmc.lowering.kernel_code import CodeLibrary
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import Dispatch, Product
from dmc.program.device_contract import check_device_code
from dmc.step_function import functions, symbol
from dmc.target import CUDA, CUDA_BY_IREE

MODULE = """
#same = affine_map<(i, j) -> (i, j)>
func.func private @negated(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %empty = tensor.empty() : tensor<1024xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<1024xf32>) outs(%empty : tensor<1024xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.negf %a : f32
      linalg.yield %b : f32
  } -> tensor<1024xf32>
  return %z : tensor<1024xf32>
}
func.func private @product(%x: tensor<64x32xbf16>, %w: tensor<16x32xbf16>) -> tensor<64x16xbf16> {
  %turned = tensor.empty() : tensor<32x16xbf16>
  %t = linalg.transpose ins(%w : tensor<16x32xbf16>) outs(%turned : tensor<32x16xbf16>) permutation = [1, 0]
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x16xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x16xf32>) -> tensor<64x16xf32>
  %p = linalg.matmul ins(%x, %t : tensor<64x32xbf16>, tensor<32x16xbf16>) outs(%fill : tensor<64x16xf32>)
      -> tensor<64x16xf32>
  %narrow = tensor.empty() : tensor<64x16xbf16>
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<64x16xf32>) outs(%narrow : tensor<64x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<64x16xbf16>
  return %y : tensor<64x16xbf16>
}
func.func private @narrowed_otherwise(%x: tensor<64x32xf16>, %w: tensor<32x16xf16>) -> tensor<64x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x16xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x16xf32>) -> tensor<64x16xf32>
  %p = linalg.matmul ins(%x, %w : tensor<64x32xf16>, tensor<32x16xf16>) outs(%fill : tensor<64x16xf32>)
      -> tensor<64x16xf32>
  %narrow = tensor.empty() : tensor<64x16xbf16>
  %y = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<64x16xf32>) outs(%narrow : tensor<64x16xbf16>) {
    ^bb0(%a: f32, %o: bf16):
      %b = arith.truncf %a : f32 to bf16
      linalg.yield %b : bf16
  } -> tensor<64x16xbf16>
  return %y : tensor<64x16xbf16>
}
func.func private @accumulated(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>, %y: tensor<64x16xf32>)
    -> tensor<64x16xf32> {
  %p = linalg.matmul ins(%x, %w : tensor<64x32xf32>, tensor<32x16xf32>) outs(%y : tensor<64x16xf32>)
      -> tensor<64x16xf32>
  return %p : tensor<64x16xf32>
}
"""


@pytest.fixture(scope="module")
def module() -> Generator[ir.Module]:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        yield ir.Module.parse(MODULE)


@pytest.fixture(scope="module")
def library(module: ir.Module) -> CodeLibrary:
    return code_for(module, ["negated", "product"], CUDA)


def _launched(name: str, reads: tuple[tuple[Operand, int], ...], write: Operand) -> Job:
    """The kernel once, on operands at these offsets; its result, then 32 MiB of scratch, behind them."""
    kernel = Kernel(name, tuple(operand for operand, _ in reads), (write,), 1024, 8192)
    ranges = tuple(Range("device", offset, _bytes(operand)) for operand, offset in reads)
    launch = Launch(0, name, ranges, (Range("device", 8192, _bytes(write)),), Range("device", 16384, WORKSPACE))
    program = Program(0, {"device": 16384 + WORKSPACE}, (Lane("compute", "compute"),), (), (launch,))
    return Job.of({"rank": 1}, (), {name: kernel}, (program,))


def _bytes(operand: Operand) -> int:
    return math.prod(operand.shape) * (4 if operand.dtype == "f32" else 2)


def _negated(offset: int) -> Job:
    return _launched("negated", ((Operand("f32", (1024,)), offset),), Operand("f32", (1024,)))


def _product(offset: int) -> Job:
    reads = ((Operand("bf16", (64, 32)), 0), (Operand("bf16", (16, 32)), 4096 + offset))
    return _launched("product", reads, Operand("bf16", (64, 16)))


def test_a_product_goes_to_the_library_and_the_rest_to_triton(library: CodeLibrary) -> None:
    assert not library.kernels
    assert {name: kernel.implementation for name, kernel in library.native.items()} == {
        "negated": "triton",
        "product": "cublaslt",
    }
    (step,) = library.native["product"].steps
    assert isinstance(step, Product)
    assert (step.left.transposed, step.right.transposed) == (False, True)
    assert (step.right.rows, step.right.columns, step.result.dtype) == (16, 32, "bf16")


def test_a_product_that_adds_to_something_or_is_narrowed_otherwise_is_no_plain_one(module: ir.Module) -> None:
    plain = {symbol(each): product_of(each) is not None for each in functions(module)}
    assert plain == {"negated": False, "product": True, "accumulated": False, "narrowed_otherwise": False}


def test_iree_alone_is_a_target_of_its_own(module: ir.Module) -> None:
    assert not code_for(module, ["negated"], CUDA_BY_IREE).native


@pytest.mark.parametrize(("offset", "is_vector"), [(0, True), (16, True), (4, False)])
def test_code_loads_vectors_where_every_launch_allows_it(library: CodeLibrary, offset: int, is_vector: bool) -> None:
    code = device_code(_negated(offset), library, CUDA)
    (step,) = code.kernels["negated"]
    assert isinstance(step, Dispatch)
    ptx = code.modules[step.module].ptx
    assert ("ld.global.v" in ptx) == is_vector
    assert "st.global.v" in ptx


@pytest.mark.parametrize(("offset", "alignment"), [(0, 16), (32, 16), (8, 8), (2, 2)])
def test_the_library_is_told_how_matrices_are_aligned(library: CodeLibrary, offset: int, alignment: int) -> None:
    job = _product(offset)
    code = device_code(job, library, CUDA)
    (step,) = code.kernels["product"]
    assert isinstance(step, Product)
    assert step.alignment == alignment
    promised = replace(code, kernels={"product": (replace(step, alignment=64),)})
    with pytest.raises(ProofError, match=r"V12: passes a library a tensor at byte .* that is declared aligned to 64"):
        check_device_code(_product(offset + 2), promised)


@pytest.mark.parametrize(("offset", "algorithm"), [(0, (66,)), (8, ())])
def test_a_measured_algorithm_is_for_aligned_matrices(
    library: CodeLibrary, offset: int, algorithm: tuple[int, ...]
) -> None:
    kernel = library.native["product"]
    (step,) = kernel.steps
    assert isinstance(step, Product)
    tuned = dataclasses.replace(kernel, steps=(replace(step, algorithm=(66,)),))
    code = device_code(_product(offset), dataclasses.replace(library, native={"product": tuned}), CUDA)
    (step,) = code.kernels["product"]
    assert isinstance(step, Product) and step.algorithm == algorithm
