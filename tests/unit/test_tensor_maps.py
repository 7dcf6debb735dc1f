"""Code that sees its buffers through tensor maps: what is known of it, and that launches keep to it."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import ProofError
from dmc.lowering.cuda.device_code import device_code
from dmc.lowering.implementations import code_for
from dmc.lowering.kernel_code import CodeLibrary
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import Binding, CodeModule, DeviceCode, Dispatch, Place, TensorMap
from dmc.program.device_contract import check_device_code
from dmc.program.ptx_accesses import parameter_accesses
from dmc.target import CUDA

MAPPED = TensorMap("bf16", (64, 32), (32, 1), (64, 32), 2)
BYTES = 64 * 32 * 2
LOAD = (
    "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {%r2, %r3}], [%r4];"
)
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r2, %r3}], [%r1];"


def entry(body: str) -> str:
    """An entry of a tensor map, with its shape and strides, and a pointer."""
    shape = ", ".join(f".param .{kind} e_param_{i}" for i, kind in enumerate(("u32", "u32", "u64", "u64"), 1))
    parameters = f".param .align 64 .b8 e_param_0[128], {shape}, .param .u64 .ptr .global .align 1 e_param_5"
    start = "mov.b64 %rd1, e_param_0; cvta.param.u64 %rd3, %rd1; ld.param.b64 %rd2, [e_param_5];"
    return f".visible .entry e({parameters})\n{{ {start}\n{body}\nret; }}"


@pytest.mark.parametrize(
    ("body", "written", "cached"),
    [
        (LOAD, set[int](), {0}),
        (STORE, {0}, set[int]()),
        (f"cvta.param.u64 %rd4, e_param_0; {LOAD.replace('%rd3', '%rd4')}", set[int](), {0}),
        (
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd3, {%r2, %r3}], [%r1];",
            {0},
            set[int](),
        ),
        ("ld.param.b64 %rd4, [e_param_0]; st.global.b32 [%rd4], %r1;", {0}, set[int]()),
        (f"{LOAD} st.global.b32 [%rd2], %r5;", {5}, {0}),
        (
            "{\n.reg .pred complete;\nwaiting:\nmbarrier.try_wait.parity.shared.b64 complete, [%r1], %r2;\n"
            "@!complete bra.uni waiting;\n}\nst.global.b32 [%rd2], %r5;",
            {5},
            set[int](),
        ),
    ],
)
def test_copies_are_followed_to_their_maps(body: str, written: set[int], cached: set[int]) -> None:
    found = parameter_accesses(entry(body))["e"]
    assert (found.written, found.cached, found.maps, found.is_known) == (written, cached, {0}, True)
    # The copy engine wants 16 bytes, whatever the instruction is called.
    assert found.alignments[:5] == (16, 1, 1, 1, 1)


def _step(shown: TensorMap | None = MAPPED, access: str = "ro") -> Dispatch:
    bindings = (Binding("ro", Place("read", 0, 0, BYTES), shown), Binding("wo", Place("write", 0, 0, BYTES)))
    first = replace(bindings[0], access=access)
    return Dispatch("e", (1, 1, 1), (32, 1, 1), 0, (first, bindings[1]), module="m")


def _check(step: Dispatch, body: str = f"{LOAD} st.global.b32 [%rd2], %r5;", read: int = 0, write: int = 8192) -> None:
    operand = Operand("bf16", (64, 32))
    launch = Launch(0, "k", (Range("device", read, BYTES),), (Range("device", write, BYTES),))
    program = Program(0, {"device": 16384}, (Lane("compute", "compute"),), (), (launch,))
    job = Job.of({"rank": 1}, (), {"k": Kernel("k", (operand,), (operand,), 1, 1)}, (program,))
    check_device_code(job, DeviceCode({"m": CodeModule(entry(body))}, {"k": (step,)}))


def test_what_maps_show_is_checked() -> None:
    _check(_step())
    wide = replace(MAPPED, shape=(65, 32))
    with pytest.raises(ProofError, match="V12: maps 4160 bytes of binding 0, which has 4096"):
        _check(_step(wide))
    with pytest.raises(ProofError, match="V12: maps 4222 bytes of binding 0"):
        _check(_step(replace(MAPPED, strides=(33, 1))))
    with pytest.raises(ProofError, match="V12: takes 6 parameters, but gets 2"):
        _check(_step(None))
    with pytest.raises(ProofError, match="V12: may write through parameter 0, which its dispatch only reads"):
        _check(_step(), f"{LOAD} {STORE} st.global.b32 [%rd2], %r5;")
    with pytest.raises(ProofError, match="V12: assumes that parameter 0 is a multiple of 16, but gets a multiple of 8"):
        _check(_step(), read=8)
    in_place = replace(_step(), ordered=((0, 1),))
    with pytest.raises(ProofError, match="V12: reads parameter 0 as if it were read-only, but writes there"):
        _check(in_place, read=8192)


def test_maps_stand_where_the_code_takes_them() -> None:
    step = _step()
    six = Dispatch("e", (1, 1, 1), (32, 1, 1), 0, step.bindings[::-1], module="m")
    with pytest.raises(ProofError, match=r"V12: takes tensor maps as parameters \[0\], but gets them as \[1\]"):
        _check(six)


PROJECTED = """
#same = affine_map<(i, j) -> (i, j)>
func.func private @projected(%x: tensor<16384x64xbf16>, %w: tensor<64x768xbf16>, %old: tensor<16384x768xf32>)
    -> tensor<16384x768xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16384x768xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<16384x768xf32>) -> tensor<16384x768xf32>
  %p = linalg.matmul ins(%x, %w : tensor<16384x64xbf16>, tensor<64x768xbf16>) outs(%fill : tensor<16384x768xf32>)
      -> tensor<16384x768xf32>
  %y = linalg.generic {indexing_maps = [#same, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%p, %old : tensor<16384x768xf32>, tensor<16384x768xf32>) outs(%empty : tensor<16384x768xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
  } -> tensor<16384x768xf32>
  return %y : tensor<16384x768xf32>
}
"""


@pytest.fixture(scope="module")
def library() -> Generator[CodeLibrary]:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        yield code_for(ir.Module.parse(PROJECTED), ["projected"], CUDA)


def _projected(offset: int) -> Job:
    operands = Operand("bf16", (16384, 64)), Operand("bf16", (64, 768)), Operand("f32", (16384, 768))
    sizes = 2 << 20, 98304, 50331648
    starts = offset, 4 << 20, 8 << 20
    reads = tuple(Range("device", start, size) for start, size in zip(starts, sizes, strict=True))
    write = Range("device", 64 << 20, sizes[2])
    kernel = Kernel("projected", operands, operands[2:], 1, 1)
    program = Program(
        0, {"device": 128 << 20}, (Lane("compute", "compute"),), (), (Launch(0, "projected", reads, (write,)),)
    )
    return Job.of({"rank": 1}, (), {"projected": kernel}, (program,))


def test_large_products_copy_their_tiles_where_every_launch_allows_it(library: CodeLibrary) -> None:
    maps = {("read", 0): (16384, 64), ("read", 1): (64, 768), ("read", 2): (16384, 768), ("write", 0): (16384, 768)}
    for job, is_mapped in ((_projected(0), True), (_projected(8), False)):
        code = device_code(job, library, CUDA)
        (step,) = code.kernels["projected"]
        assert isinstance(step, Dispatch)
        shown = {(each.place.role, each.place.index): each.map.shape for each in step.bindings if each.map is not None}
        assert shown == (maps if is_mapped else {})
        assert ("cp.async.bulk.tensor" in code.modules[step.module].ptx) == is_mapped
        assert step.nulls == 2
        assert DeviceCode.from_bytes(code.to_bytes()) == code
