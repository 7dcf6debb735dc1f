"""The code of kernels for a GPU, as it is taken out of what IREE makes of a job: what it takes for granted holds."""

from __future__ import annotations

import math
import re

import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import DmcError, ProofError
from dmc.lowering.cuda.device_code import device_code
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import MAIN, CodeModule, DeviceCode, Dispatch, Fill, Place
from dmc.program.device_contract import check_device_code
from dmc.target import CUDA

NEGATED = """
func.func private @negated(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %z = arith.negf %x : tensor<1024xf32>
  return %z : tensor<1024xf32>
}"""
OPERAND = Operand("f32", (1024,))
KERNEL = Kernel("negated", (OPERAND,), (OPERAND,), 64, 512)


def _job(*places: tuple[int, int]) -> Job:
    """The kernel on operands and results at these offsets."""
    commands = tuple(
        Launch(0, "negated", (Range("device", read, 4096),), (Range("device", write, 4096),)) for read, write in places
    )
    program = Program(0, {"device": 16384}, (Lane("compute", "compute"),), (), commands)
    return Job.of({"rank": 1}, (), {"negated": KERNEL}, (program,))


@pytest.fixture(scope="module")
def library() -> CodeLibrary:
    """Of a kernel whose code reads and writes vectors where it may."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return compile_kernels(ir.Module.parse(NEGATED), ["negated"], CUDA)


def _step(code: DeviceCode) -> Dispatch:
    (step,) = code.kernels["negated"]
    assert isinstance(step, Dispatch)
    return step


@pytest.mark.parametrize(
    ("places", "prefix", "alignments", "accesses"),
    [
        (((0, 8192),), "", (16, 16), {"ld.global.nc.v4.b32", "st.global.v4.b32"}),
        (((4, 8192),), "aligned_4_", (4, 16), {"ld.global.nc.b32", "st.global.v4.b32"}),
        (((0, 8192), (36, 8192), (32, 8192)), "aligned_4_", (4, 16), {"ld.global.nc.b32", "st.global.v4.b32"}),
        (((0, 8200),), "aligned_8_", (16, 8), {"ld.global.nc.v4.b32", "st.global.v2.b32"}),
        (((0, 0),), "", (16, 16), {"ld.global.v4.b32", "st.global.v4.b32"}),
        (((0, 8192), (1028, 1028)), "aligned_4_", (4, 4), {"ld.global.b32", "st.global.b32"}),
    ],
)
def test_the_code_takes_no_more_for_granted_than_what_holds_in_every_launch(
    library: CodeLibrary,
    places: tuple[tuple[int, int], ...],
    prefix: str,
    alignments: tuple[int, int],
    accesses: set[str],
) -> None:
    code = device_code(_job(*places), library, CUDA)
    entry = _step(code).entry
    assert entry.startswith(f"{prefix}negated_dispatch_0")
    head, body = re.findall(rf"\.entry {entry}\((.*?)\)\s(.*?)ret;", code.modules[MAIN].ptx, re.DOTALL)[0]
    assert tuple(map(int, re.findall(r"\.align (\d+)", head))) == alignments
    assert set(re.findall(r"(?:ld|st)\.global[\w.]*", body)) == accesses


def test_launches_are_refused_of_which_something_else_holds(library: CodeLibrary) -> None:
    code = device_code(_job((0, 8192)), library, CUDA)
    check_device_code(_job((256, 12288)), code)
    for places, fact in {
        (36, 8192): "assumes that parameter 0 is a multiple of 16, but gets a multiple of 4",
        (0, 8200): "assumes that parameter 1 is a multiple of 16, but gets a multiple of 8",
        (0, 0): "reads parameter 0 as if it were read-only, but writes there",
    }.items():
        with pytest.raises(ProofError, match=f"kernel @negated, entry .*: V12: {fact}"):
            check_device_code(_job((0, 8192), places), code)


def test_code_is_refused_whose_accesses_are_wider_than_it_says(library: CodeLibrary) -> None:
    job = _job((4, 8192))
    code = device_code(job, library, CUDA)
    load = re.search(r"ld\.global\.nc\.b32\s+(%r\d+),", code.modules[MAIN].ptx)
    assert load
    made = code.modules[MAIN].ptx.replace(load[0], f"ld.global.nc.v2.b32 {{{load[1]}, _}},")
    with pytest.raises(ProofError, match="V12: assumes that parameter 0 is a multiple of 8, but gets a multiple of 4"):
        check_device_code(job, replace(code, modules={MAIN: CodeModule(made)}))


def test_a_fill_is_refused_that_splits_its_pattern(library: CodeLibrary) -> None:
    job = _job((0, 8192))
    code = device_code(job, library, CUDA)

    def check(pattern: bytes, offset: int) -> None:
        fill = Fill(pattern, Place("write", 0, offset, 4096 - offset))
        check_device_code(job, replace(code, kernels={"negated": (_step(code), fill)}))

    check(bytes(4), 0)
    check(bytes(2), 2)
    with pytest.raises(ProofError, match=r"launch of @negated: V12: fills bytes \[8194, 12288\) with a pattern of 4"):
        check(bytes(4), 2)


NARROW = """
func.func private @product(%x: tensor<20x20xbf16>, %y: tensor<20x9xbf16>) -> tensor<20x9xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<20x9xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<20x9xf32>) -> tensor<20x9xf32>
  %0 = linalg.matmul ins(%x, %y : tensor<20x20xbf16>, tensor<20x9xbf16>) outs(%z : tensor<20x9xf32>) -> tensor<20x9xf32>
  return %0 : tensor<20x9xf32>
}
func.func private @windows(%x: tensor<2x18x18x3xbf16>, %w: tensor<3x3x3x16xbf16>) -> tensor<2x16x16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x16x16x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x16x16x16xf32>) -> tensor<2x16x16x16xf32>
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<2x18x18x3xbf16>, tensor<3x3x3x16xbf16>)
      outs(%z : tensor<2x16x16x16xf32>) -> tensor<2x16x16x16xf32>
  return %0 : tensor<2x16x16x16xf32>
}"""
# The shapes of operands and result.
NARROW_SHAPES = {
    "product": ((20, 20), (20, 9), (20, 9)),
    "windows": ((2, 18, 18, 3), (3, 3, 3, 16), (2, 16, 16, 16)),
}


def _narrow(name: str) -> DeviceCode:
    """IREE's code of a product of numbers of 16 bits."""
    *given, made = NARROW_SHAPES[name]
    reads = tuple(Operand("bf16", shape) for shape in given)
    writes = (Operand("f32", made),)
    ranges = [
        Range("device", i << 20, math.prod(each.shape) * (4 if each in writes else 2))
        for i, each in enumerate((*reads, *writes))
    ]
    launch = Launch(0, name, tuple(ranges[:2]), tuple(ranges[2:]))
    program = Program(0, {"device": 3 << 20}, (Lane("compute", "compute"),), (), (launch,))
    job = Job.of({"rank": 1}, (), {name: Kernel(name, reads, writes, 64, 512)}, (program,))
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return device_code(job, compile_kernels(ir.Module.parse(NARROW), [name], CUDA), CUDA)


def test_narrow_products_that_fill_no_tile_do_not_go_to_tensor_cores() -> None:
    assert "mma" not in _narrow("product").modules[MAIN].ptx


def test_narrow_convolutions_are_refused() -> None:
    with pytest.raises(
        DmcError, match=r"kernel entry \w*windows\w*: IREE multiplies narrow numbers by code that reads"
    ):
        _narrow("windows")
