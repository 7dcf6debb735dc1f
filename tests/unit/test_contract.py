"""What the code of a kernel does is compared with what its launches say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import DmcError, ProofError
from dmc.lowering.kernel_code import CodeLibrary, Copy, Dispatch, Fill, Group, KernelCode, KernelCommand
from dmc.lowering.kernels import kernels
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.stream.program import stream_module
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import Access, Binding, Place
from dmc.program.contract import check_contracts
from dmc.target import CPU

X, Y, OUT, SCRATCH = (
    Place("read", 0, 0, 64),
    Place("read", 1, 0, 64),
    Place("write", 0, 0, 64),
    Place("scratch", 0, 0, 64),
)
AT = [Range("device", offset, 64) for offset in range(0, 1024, 256)]


def _dispatch(*bindings: tuple[Access, Place], ordered: frozenset[tuple[int, int]] = frozenset()) -> Dispatch:
    return Dispatch("e", "e_0", (), (), tuple(Binding(access, place) for access, place in bindings), ordered)


SUM = _dispatch(("ro", X), ("ro", Y), ("wo", OUT), ordered=frozenset({(0, 2)}))


def _job(*launches: Launch) -> Job:
    program = Program(0, {"device": 1024}, (Lane("compute", "compute"),), (), launches)
    operand = Operand("f32", (16,))
    return Job.of({"rank": 1}, (), {"k": Kernel("k", (operand, operand), (operand,), 1, 1)}, (program,))


def _check(commands: tuple[KernelCommand, ...], launch: Launch) -> None:
    check_contracts(_job(launch), {"k": KernelCode("k", commands, 64).phases()})


APART = Launch(0, "k", (AT[0], AT[1]), (AT[2],), AT[3], label="h.0")


@pytest.mark.parametrize(
    ("commands", "launch"),
    [
        ((SUM,), APART),
        ((SUM,), Launch(0, "k", (AT[0], AT[1]), (AT[0],))),
        ((SUM,), Launch(0, "k", (AT[0], AT[0]), (AT[1],))),
        ((Copy(X, SCRATCH), _dispatch(("ro", SCRATCH), ("ro", Y), ("wo", OUT))), APART),
        ((Group((Copy(X, Place("write", 0, 0, 40)), Fill("0 : i8", Place("write", 0, 40, 24)))),), APART),
    ],
)
def test_what_keeps_to_its_launch(commands: tuple[KernelCommand, ...], launch: Launch) -> None:
    _check(commands, launch)


@pytest.mark.parametrize(
    ("commands", "launch", "fact"),
    [
        ((_dispatch(("ro", X), ("rw", Y), ("wo", OUT)),), APART, "writes operand 1, which the launch only reads"),
        ((SUM, Copy(OUT, X)), APART, "writes operand 0, which the launch only reads"),
        ((_dispatch(("ro", X), ("rw", OUT)),), APART, "reads result 0 before writing anything there"),
        ((Group((Copy(X, SCRATCH), Copy(SCRATCH, OUT))),), APART, "reads its scratch before writing anything"),
        ((Copy(X, Place("write", 0, 0, 40)),), APART, "leaves result 0 unwritten from byte 40 on"),
        ((Copy(X, SCRATCH),), APART, "leaves result 0 unwritten from byte 0 on"),
        ((Copy(Place("read", 0, 8, 64), OUT),), APART, r"uses bytes \[8, 72\) of operand 0, which has 64"),
        ((Copy(Place("read", 2, 0, 64), OUT),), APART, r"uses bytes \[0, 64\) of operand 2, which has 0"),
        ((Copy(X, SCRATCH), SUM), Launch(0, "k", tuple(AT[:2]), (AT[2],)), "of its scratch, which has 0"),
        ((SUM,), Launch(0, "k", (AT[0], AT[1]), (AT[1],)), "writes result 0 over operand 1, which it still reads"),
        ((SUM,), Launch(0, "k", (AT[0], AT[0]), (AT[0],)), "writes result 0 over operand 1, which it still reads"),
        (
            (SUM,),
            Launch(0, "k", tuple(AT[:2]), (Range("device", 32, 64),)),
            "writes result 0 over part of an operand",
        ),
        ((SUM,), Launch(0, "k", tuple(AT[:2]), (AT[2],), AT[2]), "over another result or its scratch"),
        ((SUM,), Launch(0, "k", tuple(AT[:2]), (AT[2],), AT[1]), "has scratch that overlaps an operand"),
        ((SUM,), Launch(0, "other", tuple(AT[:2]), (AT[2],)), "has no code"),
    ],
)
def test_what_does_not(commands: tuple[KernelCommand, ...], launch: Launch, fact: str) -> None:
    with pytest.raises(ProofError, match=f"rank 0, launch of @{launch.kernel}.*: V12: .*{fact}") as caught:
        _check(commands, launch)
    assert caught.value.property == "V12"


ADDED = """
func.func private @k(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %z = arith.addf %x, %y : tensor<16xf32>
  return %z : tensor<16xf32>
}"""
INSERTED = """
func.func private @k(%x: tensor<8xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %z = tensor.insert_slice %x into %y[0] [8] [2] : tensor<8xf32> into tensor<16xf32>
  return %z : tensor<16xf32>
}"""


def _compiled(text: str) -> CodeLibrary:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return compile_kernels(ir.Module.parse(text), ["k"], CPU)


def test_a_library_whose_kernel_writes_its_operand() -> None:
    library, job = _compiled(ADDED), _job(APART)
    stream_module(job, library)
    (command,) = library.kernels["k"].commands
    assert isinstance(command, Dispatch)
    first, *others = command.bindings
    planted = replace(command, bindings=(Binding("rw", first.place), *others))
    broken = replace(library, kernels={"k": KernelCode("k", (planted,), 0)})
    with pytest.raises(ProofError, match=r"launch of @k .h.0.: V12: writes operand 0, which the launch only reads"):
        stream_module(job, broken)


def test_what_updates_an_operand_updates_a_copy() -> None:
    library = _compiled(INSERTED)
    copied, update = library.kernels["k"].commands
    assert copied == Copy(Y, OUT)
    assert isinstance(update, Dispatch)
    assert update.bindings == (Binding("ro", Place("read", 0, 0, 32)), Binding("wo", OUT))


def test_code_that_does_what_it_does_not_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernels.stream_text
    # The operand's buffer, which the code stores to.
    monkeypatch.setattr(kernels, "stream_text", lambda *given: made(*given).replace("rw %arg4[", "ro %arg4["))
    with pytest.raises(DmcError, match=r"kernel @k: .*accesses a buffer as 'w' but declares 'r'"):
        _compiled(INSERTED.replace("[0] [8]", "[1] [8]"))
