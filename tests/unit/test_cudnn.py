"""Attention by cuDNN: for which problems, in which plans, and what its bindings are asked, which only record it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import func, ir
from dmc.analysis.kernels.problems import PlacedProblem
from dmc.errors import DmcError, ProofError
from dmc.kernels.problem import TensorType, problem
from dmc.lowering.attention import attention_of
from dmc.lowering.candidates import candidates_of
from dmc.lowering.device_code import device_code
from dmc.lowering.kernel_code import CodeLibrary
from dmc.lowering.native import kernel_key, native_kernels, ways_of
from dmc.program import Job, Kernel, Lane, Launch, Operand, Program, Range
from dmc.program.code import Attention, DeviceCode, Dispatch, Heads, Place
from dmc.program.device_contract import check_device_code
from dmc.program.tuning import CUDNN, Choice, Table
from dmc.runtime.cudnn import Cudnn
from dmc.runtime.libraries import Libraries
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
    *(_heads("read", index) for index in range(3)),
    _heads("write", 0),
    Place("write", 1, 0, LEVEL),
    "bf16",
    0.25,
    True,
    Place("scratch", 0, 0, 1 << 20),
)


def _placed(dtype: str = "bf16", shape: tuple[int, ...] = SHAPE, columns: int = 64, **given: Any) -> PlacedProblem:
    q, k = TensorType(dtype, shape), TensorType(dtype, (*shape[:2], columns, shape[3]))
    bias = (TensorType("f32", (64, columns)),) if given.pop("biased", False) else ()
    strides = given.pop("strides", ())
    parameters = {"p": 0.0, "scale": 0.25, "causal": True, **given}
    number = TensorType("i64", ())
    results = (dataclasses.replace(q, strides=strides), TensorType("f32", (*shape[:3], 1)))
    taken = (q, k, k, *bias, number, number)
    operands = tuple(Place("read", index, 0, each.bytes) for index, each in enumerate(taken))
    made = tuple(Place("write", index, 0, each.bytes) for index, each in enumerate(results))
    return PlacedProblem(problem("attention", taken, results, **parameters), operands, made)


def test_wide_heads_without_dropout_may_be_the_librarys() -> None:
    assert attention_of(_placed()) == STEP
    turned = (8192, 128, 512, 1)
    made = attention_of(_placed(strides=turned, causal=False, columns=32))
    assert made is not None and (made.out.strides, made.causal, made.k.shape) == (turned, False, (2, 4, 32, 128))


@pytest.mark.parametrize(
    "given",
    [
        {"dtype": "f32"},
        {"p": 0.1},
        {"biased": True},
        {"shape": (2, 4, 64, 64)},
        {"shape": (2, 4, 64, 100)},
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
    return Job({"rank": 1}, (), {"attention_0": kernel}, (program,))


def test_the_table_decides(module: ir.Module) -> None:
    ours, theirs = _library(module).native["attention_0"], _library(module, "x", CUDNN).native["attention_0"]
    assert (ours.implementation, theirs.implementation) == ("triton", CUDNN)
    assert theirs.steps == (STEP,) and theirs.scratch == 1 << 20
    assert Choice("attention_0", "t", CUDNN, {CUDNN: 1.0, "x": 2.0}).key == "cudnn attention t"
    assert Choice("attention_0", "t", "x", {CUDNN: 1.0, "x": 2.0}).key == "triton attention t"
    # What was measured for a kernel of the same types is taken for a part of attention.
    types = "2x4x64x128xbf16, 2x4x64x128xbf16, 2x4x64x128xbf16, i64 -> 2x4x64x128xbf16, 2x4x64x1xf32"
    table = Table({"other": Choice("attention_9", types, CUDNN, {CUDNN: 1.0})})
    assert native_kernels(module, ["attention_0"], table)[0].native["attention_0"].implementation == CUDNN


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
    check_device_code(_job(16), aligned)
    with pytest.raises(ProofError, match=r"V12: .* matrix at byte .* that is declared aligned to 16"):
        check_device_code(_job(8), aligned)
    assert DeviceCode.from_bytes(aligned.to_bytes()) == aligned


def test_its_accesses_are_checked() -> None:
    beyond = replace(STEP, v=replace(STEP.v, place=Place("read", 2, 0, BYTES + 1)))
    with pytest.raises(ProofError, match=r"V12"):
        check_device_code(_job(), DeviceCode({}, {"attention_0": (beyond,)}))
    partly = replace(STEP, logsumexp=Place("write", 1, 0, LEVEL - 4))
    with pytest.raises(ProofError, match=r"V12"):
        check_device_code(_job(), DeviceCode({}, {"attention_0": (partly,)}))


class Tensor:
    """What the library calls one: what was set of it."""

    def __init__(self, **given: Any) -> None:
        self.facts = given

    def __getattr__(self, name: str) -> Any:
        def set_(value: Any) -> Tensor:
            self.facts[name.removeprefix("set_")] = value
            return self

        return set_


class NotSupported(Exception):
    """What the bindings raise."""


class Bindings:
    """cuDNN's frontend. needs: the size of its workspace; fails: at which call."""

    cudnnGraphNotSupportedError = NotSupported  # noqa: N815
    data_type = SimpleNamespace(FLOAT="f", BFLOAT16="b", HALF="h")
    diagonal_alignment = SimpleNamespace(TOP_LEFT="top")
    heur_mode = SimpleNamespace(A="a")

    def __init__(self, needs: int = 0, fails: str = "") -> None:
        self.needs, self.fails, self.asked = needs, fails, list[Any]()
        self.made: dict[str, Tensor] = {}

    def create_handle(self) -> int:
        return 5

    def backend_version(self) -> int:
        return 91900

    def set_stream(self, handle: int, stream: int) -> None:
        self.asked.append(("stream", handle, stream))

    def pygraph(self, **given: Any) -> Any:
        self.asked.append(given)
        return self

    def tensor(self, name: str, **given: Any) -> Tensor:
        self.made[name] = Tensor(**given)
        return self.made[name]

    def sdpa(self, name: str, q: Tensor, k: Tensor, v: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
        assert [q, k, v] == [self.made[each] for each in "qkv"]
        self.asked.append(given)
        self.made |= {"out": Tensor(), "level": Tensor()}
        return self.made["out"], self.made["level"]

    def get_workspace_size(self) -> int:
        return self.needs

    def execute(self, buffers: dict[Tensor, int], workspace: int, handle: int) -> None:
        names = {tensor: name for name, tensor in self.made.items()}
        self.asked.append(({names[tensor]: pointer for tensor, pointer in buffers.items()}, workspace, handle))

    def __getattr__(self, name: str) -> Any:
        def step(*_: Any) -> None:
            if name == self.fails:
                raise NotSupported("no engine")

        return step


def test_the_library_is_asked_for_what_the_step_says() -> None:
    library = Bindings(needs=1 << 20)
    attend = Cudnn(library).prepared(replace(STEP, k=replace(STEP.k, shape=(2, 2, 64, 128))))
    types = {"io_data_type": "b", "intermediate_data_type": "f", "compute_data_type": "f"}
    assert library.asked == [
        {**types, "handle": 5},
        {"attn_scale": 0.25, "generate_stats": True, "diagonal_alignment": "top", "diagonal_band_right_bound": 0},
    ]
    assert library.made["k"].facts == {"dim": [2, 2, 64, 128], "stride": [*STEPS], "data_type": "b"}
    assert library.made["out"].facts == {"output": True, "dim": [*SHAPE], "stride": [*STEPS]}
    assert library.made["level"].facts == {
        "output": True,
        "data_type": "f",
        "dim": [2, 4, 64, 1],
        "stride": [256, 64, 1, 1],
    }
    attend([1, 2, 3, 4, 5, 6], 7)
    buffers = {"q": 1, "k": 2, "v": 3, "out": 4, "level": 5}
    assert library.asked[2:] == [("stream", 5, 7), (buffers, 6, 5)]


def test_without_a_causal_mask_no_diagonal_is_named() -> None:
    library = Bindings()
    Cudnn(library).prepared(replace(STEP, causal=False, dtype="f16"))
    assert library.asked[0]["io_data_type"] == "h"
    assert library.asked[1] == {"attn_scale": 0.25, "generate_stats": True}


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (Bindings(fails="check_support"), r"cuDNN 91900 cannot compute bf16 \[2, 4, 64, 128\] \(no engine\)"),
        (Bindings(needs=(1 << 20) + 1), "cuDNN 91900 needs a workspace of 1048577 bytes, and has 1048576"),
    ],
)
def test_what_it_cannot_compute_is_an_error(library: Bindings, message: str) -> None:
    with pytest.raises(DmcError, match=message):
        Cudnn(library).prepared(STEP)


def test_a_step_that_needs_it_says_so_when_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries, code = Libraries(), DeviceCode({}, {"attention_0": (STEP,)})
    monkeypatch.setitem(sys.modules, "cudnn", None)
    libraries.prepare(code)
    with pytest.raises(DmcError, match=r"requires cuDNN for attention .*\n  hint: pip install 'dmc\[cudnn\]'"):
        libraries.attention(STEP, [1, 2, 3, 4, 5, 6], 7)
    library = Bindings()
    monkeypatch.setitem(sys.modules, "cudnn", library)
    libraries.prepare(code)
    libraries.attention(STEP, [1, 2, 3, 4, 5, 6], 7)
    assert library.asked[-1][1:] == (6, 5)
