"""Which buffers PTX may write, followed from its parameters to its stores."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import ProofError
from dmc.lowering.cuda.device_code import device_code
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import MAIN, CodeModule, DeviceCode, Dispatch
from dmc.program.device_contract import check_device_code
from dmc.program.ptx_accesses import parameter_accesses
from dmc.target import CUDA

LOADS = """
  ld.param.b64 %rd1, [e_param_0];
  ld.param.b64 %rd2, [e_param_1];
  ld.param.b32 %r1, [e_param_2]; // not a pointer"""


def entry(body: str) -> str:
    """An entry of two pointers and a number."""
    pointers = ", ".join(f".param .u64 .ptr .global .align 16 e_param_{i}" for i in range(2))
    return f".visible .entry e({pointers}, .param .b32 e_param_2)\n.maxntid 32, 1, 1\n{{ {LOADS}\n{body}\nret; }}"


@pytest.mark.parametrize(
    ("body", "written", "is_known"),
    [
        ("ld.global.nc.b32 %r2, [%rd1]; st.global.b32 [%rd2], %r2;", {1}, True),
        ("mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; @%p1 st.global.v2.b32 [%rd4+8], {%r2, %r3};", {0}, True),
        ("setp.eq.b64 %p1, %rd1, 0; selp.b64 %rd3, %rd4, %rd2, %p1; st.global.b32 [%rd3], %r2;", {1}, True),
        (
            '$L0:\n.pragma "nounroll"; st.global.b32 [%rd3], %r2; add.s64 %rd3, %rd4, 4; mov.b64 %rd4, %rd1; bra $L0;',
            {0},
            True,
        ),
        ("st.local.b64 [%SPL], %rd1; ld.local.b64 %rd3, [%SPL]; st.global.b32 [%rd3], %r2;", {0}, True),
        ("atom.global.add.f32 %f1, [%rd1], %f2; red.global.add.f32 [%rd2], %f1;", {0, 1}, True),
        (
            "mov.b64 %SPL, __local_depot0; cvta.local.u64 %SP, %SPL; st.b8 [%SP+2], %rs1; add.u64 %rd3, %SP, 8;"
            " st.b64 [%rd3], %rd1; ld.b64 %rd4, [%SP+8]; st.global.b32 [%rd4], %r2;",
            {0},
            True,
        ),
        (
            "cvta.to.global.u64 %rd3, %rd2; cp.async.cg.shared.global [%r4], [%rd1], 16; st.global.b8 [%rd3], %r2;",
            {1},
            True,
        ),
        ("st.shared.b32 [%r4], %r2; cp.async.commit_group; bar.sync 0;", set[int](), True),
        ("ld.global.b64 %rd3, [%rd1]; st.global.b32 [%rd3], %r2;", set[int](), False),
        ("{ .reg .b32 tmp; mov.b64 {tmp, %r4}, %rd1; }\n st.global.b32 [%rd2], %r4;", {1}, True),
        ("{ .reg .b32 tmp; mov.b64 {%r4, tmp}, %rd1; cvt.u64.u32 %rd3, tmp; } st.global.b32 [%rd3], %r2;", {0}, True),
        ("{ .reg .b32 half; mov.b64 {%r4, half}, %rd1; } st.global.b32 [%rd2], %r4;", {1}, False),
        (".loc 1 96 24\nst.global.b32 [%rd1], %r2;", {0}, True),
        ("ST.odd [%rd1], %r2;", set[int](), False),
        ("sust.b.1d.b32.trap [%rd2, {%r1}], {%r2};", {1}, True),
        (".reg .b64 other; mov.u64 other, %rd1; st.global.b32 [%rd2], %r2;", {1}, False),
        ("{ .param .b64 param0; st.param.b64 [param0], %rd1; call (retval0), f, (%rd2); }", {1}, True),
    ],
)
def test_stores_are_followed_to_parameters(body: str, written: set[int], is_known: bool) -> None:
    found = parameter_accesses(entry(body))["e"]
    assert (found.written, found.is_known) == (written, is_known)
    assert len(found.alignments) == 3


@pytest.mark.parametrize(
    ("body", "cached", "alignments"),
    [
        ("", set[int](), (16, 16, 1)),
        ("ld.global.nc.v4.b32 {%r2, %r3, %r4, %r5}, [%rd1]; st.global.v4.b64 [%rd2], {%rd3}", {0}, (16, 32, 1)),
        ("ld.global.nc.L1::no_allocate.L2::128B.v8.f32 {%f1}, [%rd1+32];", {0}, (32, 16, 1)),
        (
            "cp.async.ca.shared.global [%r4], [%rd1], 0x4; cp.async.bulk.shared.global [%r4], [%rd2], 64, [%r5];",
            set[int](),
            (16, 32, 1),
        ),
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r2}, [%rd2], 16;", set[int](), (16, 32, 1)),
        (
            "add.s64 %rd3, %rd1, 4; ldu.global.b32 %r2, [%rd3]; atom.global.add.f64 %fd1, [%rd2], %fd2;",
            {0},
            (16, 16, 1),
        ),
    ],
)
def test_what_addresses_must_be_multiples_of(body: str, cached: set[int], alignments: tuple[int, ...]) -> None:
    found = parameter_accesses(entry(body))["e"]
    assert (found.cached, found.alignments) == (cached, alignments)


@pytest.mark.parametrize(("declared", "needed"), [(".align 1", 2), (".align 8", 8), ("", 4)])
def test_what_is_declared_is_needed_too(declared: str, needed: int) -> None:
    body = "ld.global.b8 %rs1, [%rd1]; red.global.add.noftz.bf16 [%rd1+2], %rs1; st.global.b16 [%rd2], %rs1;"
    made = parameter_accesses(entry(body).replace(".align 16", declared))
    assert made["e"].alignments == (needed, needed, 1)


COPIED = """
func.func private @copied(%x: tensor<64xf32>) -> tensor<64xf32> {
  %z = arith.negf %x : tensor<64xf32>
  return %z : tensor<64xf32>
}"""
OPERAND = Operand("f32", (64,))
LAUNCH = Launch(0, "copied", (Range("device", 0, 256),), (Range("device", 256, 256),))
PROGRAM = Program(0, {"device": 512}, (Lane("compute", "compute"),), (), (LAUNCH,))
JOB = Job.of({"rank": 1}, (), {"copied": Kernel("copied", (OPERAND,), (OPERAND,), 64, 512)}, (PROGRAM,))


@pytest.fixture(scope="module")
def code() -> DeviceCode:
    """Of a kernel with one operand and one result."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        library = compile_kernels(ir.Module.parse(COPIED), ["copied"], CUDA)
    return device_code(JOB, library, CUDA)


def _planted(code: DeviceCode, access: str) -> DeviceCode:
    """The code with another access of its operand."""
    (step,) = code.kernels["copied"]
    assert isinstance(step, Dispatch)
    first, result = step.bindings
    return replace(code, kernels={"copied": (replace(step, bindings=(replace(first, access=access), result)),)})


def test_code_is_refused_that_writes_its_operand(code: DeviceCode) -> None:
    check_device_code(JOB, code)
    with pytest.raises(ProofError, match="launch of @copied: V12: writes operand 0, which the launch only reads"):
        check_device_code(JOB, _planted(code, "rw"))
    target = re.search(r"st\.global\.b32\s+\[(%rd\d+)\]", code.modules[MAIN].ptx)
    source = re.search(r"ld\.global\.nc\.b32\s+%r\d+, \[(%rd\d+)\]", code.modules[MAIN].ptx)
    assert target and source
    swapped = code.modules[MAIN].ptx.replace(target[0], target[0].replace(target[1], source[1]))
    with pytest.raises(ProofError, match="V12: may write through parameter 0, which its dispatch only reads"):
        check_device_code(JOB, replace(code, modules={MAIN: CodeModule(swapped)}))


def test_code_is_refused_that_is_not_called_as_it_is_written(code: DeviceCode) -> None:
    with pytest.raises(ProofError, match="is not in the code"):
        check_device_code(JOB, replace(code, modules={}))
    (step,) = code.kernels["copied"]
    more = replace(code, kernels={"copied": (replace(step, scalars=(7,)),)})
    with pytest.raises(ProofError, match="takes 2 parameters, but gets 3"):
        check_device_code(JOB, more)
