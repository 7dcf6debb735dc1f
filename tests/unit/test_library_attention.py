"""Attention by cuDNN: for which problems, and in which plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import func, ir
from dmc.analysis.kernels.problems import PlacedProblem
from dmc.errors import DmcError, ProofError
from dmc.kernels.problem import TensorType, problem
from dmc.lowering.cuda import native_steps
from dmc.lowering.cuda.attention import attention_of
from dmc.lowering.cuda.candidates import candidates_of
from dmc.lowering.cuda.device_code import device_code
from dmc.lowering.cuda.native import UNMEASURED, as_launched, kernel_key, native_kernels, ways_of
from dmc.lowering.kernel_code import CodeLibrary
from dmc.machine.files import machine
from dmc.memo import Memo
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import Attention, DeviceCode, Dispatch, Heads, Place
from dmc.program.device_contract import check_device_code
from dmc.program.tuning import CUDNN, Choice, Table, tables
from dmc.target import CUDA

SHAPE = (2, 4, 64, 128)
STEPS = (32768, 8192, 128, 1)
BYTES = 2 * 4 * 64 * 128 * 2
LEVEL = 2 * 4 * 64 * 4
MODULE = """
func.func private @attention_0(%q: Q, %k: Q, %v: Q, %seed: tensor<i64>) -> (Q, LEVEL) {
  %y, %level = "dm.composite"(%q, %k, %v, %seed, %seed) {kind = "attention", decomposition = @meaning,
      parameters = {p = 0.0 : f64, scale = 0.25 : f64, causal = true}}
      : (Q, Q, Q, tensor<i64>, tensor<i64>) -> (Q, LEVEL)
  return %y, %level : Q, LEVEL
}
func.func private @meaning(Q, Q, Q, tensor<i64>, tensor<i64>) -> (Q, LEVEL)
""".replace("Q", "tensor<2x4x64x128xbf16>").replace("LEVEL", "tensor<2x4x64x1xf32>")


def _heads(role: Any, index: int) -> Heads:
    return Heads(Place(role, index, 0, BYTES), SHAPE, STEPS)


STEP = Attention(
    _heads("read", 0),
    _heads("read", 1),
    _heads("read", 2),
    _heads("write", 0),
    Place("write", 1, 0, LEVEL),
    "bf16",
    0.25,
    True,
    Place("scratch", 0, 0, 1 << 20),
)


def _placed(dtype: str = "bf16", shape: tuple[int, ...] = SHAPE, columns: int = 64, **given: Any) -> PlacedProblem:
    q, k = TensorType(dtype, shape), TensorType(dtype, (shape[0], given.pop("groups", shape[1]), columns, shape[3]))
    v = dataclasses.replace(k, shape=(*k.shape[:3], given.pop("value_width", shape[3])))
    bias = (TensorType("f32", (64, columns)),) if given.pop("biased", False) else ()
    strides = given.pop("strides", ())
    parameters = {"p": 0.0, "scale": 0.25, "causal": True, **given}
    number = TensorType("i64", ())
    results = (dataclasses.replace(q, strides=strides), TensorType("f32", (*shape[:3], 1)))
    taken = (q, k, v, *bias, number, number)
    operands = tuple(Place("read", index, 0, each.bytes) for index, each in enumerate(taken))
    made = tuple(Place("write", index, 0, each.bytes) for index, each in enumerate(results))
    return PlacedProblem(problem("attention", taken, results, **parameters), operands, made)


def test_wide_heads_without_dropout_may_be_the_librarys() -> None:
    assert attention_of(_placed()) == STEP
    turned = (8192, 128, 512, 1)
    made = attention_of(_placed("f16", strides=turned, causal=False, columns=32, groups=2))
    assert made is not None and (made.out.strides, made.causal, made.dtype) == (turned, False, "f16")
    assert made.k.shape == made.v.shape == (2, 2, 32, 128) and made.k.strides == (8192, 4096, 128, 1)


@pytest.mark.parametrize(
    "given",
    [
        {"dtype": "f32"},
        {"p": 0.1},
        {"biased": True},
        {"shape": (2, 4, 64, 64)},
        {"shape": (2, 4, 64, 100)},
        {"value_width": 64},
        {"columns": 32},
        {"strides": (32772, 8192, 128, 1)},
    ],
)
def test_others_are_not(given: dict[str, Any]) -> None:
    assert attention_of(_placed(**given)) is None


@pytest.fixture
def module() -> Generator[ir.Module]:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        yield ir.Module.parse(MODULE)


def _library(module: ir.Module, *measured: str) -> CodeLibrary:
    function = module.body.operations[0]
    assert isinstance(function, func.FuncOp)
    times = {label: float(number) for number, label in enumerate(reversed(measured), 1)}
    choices = {kernel_key(function, ways_of(function)): Choice("attention_0", "", measured[-1], times)} if times else {}
    return native_kernels(module, ["attention_0"], Table(choices))[0]


def _job(offset: int = 0) -> Job:
    places = [Range("device", index * 2 * BYTES + (offset if index == 0 else 0), BYTES) for index in range(4)]
    seed, level = Range("device", 16 * BYTES, 8), Range("device", 17 * BYTES, LEVEL)
    launch = Launch(
        0, "attention_0", (*places[:3], seed), (places[3], level), Range("device", 18 * BYTES, 1 << 20), label="h"
    )
    wide, number = Operand("bf16", SHAPE), Operand("i64", ())
    kernel = Kernel("attention", (wide, wide, wide, number), (wide, Operand("f32", (*SHAPE[:3], 1))), 1, 1 << 20)
    program = Program(0, {"device": 32 * BYTES}, (Lane("compute", "compute"),), (), (launch,))
    return Job.of({"rank": 1}, (), {"attention_0": kernel}, (program,))


def test_the_table_decides(module: ir.Module) -> None:
    ours, theirs = _library(module).native["attention_0"], _library(module, "x", CUDNN).native["attention_0"]
    assert (ours.implementation, theirs.implementation) == ("triton", CUDNN)
    assert theirs.steps == (STEP,) and theirs.scratch == 1 << 20
    assert Choice("attention_0", "t", CUDNN, {CUDNN: 1.0, "x": 2.0}).key == "cudnn attention t"
    assert Choice("attention_0", "t", "x", {CUDNN: 1.0, "x": 2.0}).key == "triton attention t"
    # What was measured for a kernel of the same types is taken for a part of attention, if all agree.
    types = "2x4x64x128xbf16, 2x4x64x128xbf16, 2x4x64x128xbf16, i64 -> 2x4x64x128xbf16, 2x4x64x1xf32"
    table = Table({"other": Choice("attention_9", types, CUDNN, {CUDNN: 1.0})})
    assert native_kernels(module, ["attention_0"], table)[0].native["attention_0"].implementation == CUDNN
    label = _library(module).native["attention_0"].taken
    assert label is not None
    divided = Table({**table.choices, "another": Choice("attention_8", types, label.label, {label.label: 1.0})})
    found = native_kernels(module, ["attention_0"], divided)[0].native["attention_0"]
    assert (found.implementation, found.reason) == ("triton", UNMEASURED)


def test_it_is_never_used_unmeasured(module: ir.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = DmcError("attention", "does not compile")
    monkeypatch.setattr(native_steps, "_KNOWN", Memo[Any, Any](1))
    monkeypatch.setattr(native_steps, "compile_all", lambda requests: [refused for _ in requests])
    library, declined = native_kernels(module, ["attention_0"])
    assert not library.native and declined == {"attention_0": "does not compile"}


def test_tables_of_the_package_do_not_require_it() -> None:
    assert not [each for table in tables().values() for each in table.choices.values() if each.label == CUDNN]
    assert {"cudnn attention"} <= machine("h100").device.families.keys() & machine("h200").device.families.keys()


def test_it_is_among_the_candidates(module: ir.Module) -> None:
    (tunable,) = candidates_of(module, _job()).tunables
    first, *_, last = tunable.candidates
    assert (last.label, last.steps) == (CUDNN, (STEP,))
    assert isinstance(first.steps[0], Dispatch)


def test_what_is_not_aligned_is_dmcs_own(module: ir.Module) -> None:
    library = _library(module, "x", CUDNN)
    aligned, odd = (device_code(_job(offset), library, CUDA) for offset in (16, 8))
    assert aligned.kernels["attention_0"] == (STEP,)
    assert isinstance(odd.kernels["attention_0"][0], Dispatch)
    assert as_launched(library, _job(8)).native["attention_0"].implementation == "triton"
    check_device_code(_job(16), aligned)
    with pytest.raises(ProofError, match=r"V12: passes a library a tensor at byte .* that is declared aligned to 16"):
        check_device_code(_job(8), aligned)
    assert DeviceCode.from_bytes(aligned.to_bytes()) == aligned


def test_its_accesses_are_checked() -> None:
    beyond = replace(STEP, v=replace(STEP.v, place=Place("read", 2, 0, BYTES + 1)))
    with pytest.raises(ProofError, match=r"V12"):
        check_device_code(_job(), DeviceCode({}, {"attention_0": (beyond,)}))
    wider = replace(STEP, workspace=Place("scratch", 0, 0, (1 << 20) + 1))
    with pytest.raises(ProofError, match=r"V12"):
        check_device_code(_job(), DeviceCode({}, {"attention_0": (wider,)}))
    partly = replace(STEP, logsumexp=Place("write", 1, 0, LEVEL - 4))
    with pytest.raises(ProofError, match=r"V12"):
        check_device_code(_job(), DeviceCode({}, {"attention_0": (partly,)}))
