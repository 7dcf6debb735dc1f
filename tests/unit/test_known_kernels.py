"""Kernels that were compiled before, under whatever name, are not compiled again."""

from __future__ import annotations

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.lowering.kernel_code import CodeLibrary, Dispatch, leaves
from dmc.lowering.kernels import kernels
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.kernels.known_kernels import KnownKernels
from dmc.memo import Memo
from dmc.target import CPU, CUDA, target
from tests.unit.test_kernels import SUM

DIFFERENCE = SUM.replace("addf", "subf")
# One dispatch reads what another wrote.
BOTH = """
func.func private @{name}(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %once = linalg.matmul ins(%x, %y : tensor<8x8xf32>, tensor<8x8xf32>)
      outs(%zeros : tensor<8x8xf32>) -> tensor<8x8xf32>
  %next = linalg.matmul ins(%once, %y : tensor<8x8xf32>, tensor<8x8xf32>)
      outs(%zeros : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %next : tensor<8x8xf32>
}}"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that IREE is given, in a process that has compiled nothing."""
    given = list[str]()
    stream_text = kernels.stream_text

    def counted(text: str, *rest: object) -> str:
        given.append(text)
        return stream_text(text, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(kernels, "stream_text", counted)
    monkeypatch.setattr(kernels, "_KNOWN", KnownKernels(Memo(3)))
    monkeypatch.setattr(kernels, "_compiled", vars(kernels)["_compiled"].__wrapped__)
    return given


def _library(context: ir.Context, **texts: str) -> CodeLibrary:
    module = ir.Module.parse("".join(text.format(name=name) for name, text in texts.items()), context)
    return compile_kernels(module, texts, CPU)


def _dispatches(library: CodeLibrary, name: str) -> list[Dispatch]:
    return [each for each in leaves(library.kernels[name].commands) if isinstance(each, Dispatch)]


def test_a_kernel_is_compiled_once_under_all_its_names(compiled: list[str], context: ir.Context) -> None:
    first = _library(context, sum=SUM, both=BOTH)
    again = _library(context, total=SUM, difference=DIFFERENCE, chain=BOTH)
    assert len(compiled) == 2
    assert "@difference" in compiled[1] and "@total" not in compiled[1] and "@chain" not in compiled[1]
    assert again.device == first.device
    assert set(again.kernels) == {"total", "difference", "chain"}
    for old, new in (("sum", "total"), ("both", "chain")):
        assert again.kernels[new].name == new
        pairs = zip(_dispatches(first, old), _dispatches(again, new), strict=True)
        assert [(a.bindings, a.workload) for a, _ in pairs] == [
            (b.bindings, b.workload) for b in _dispatches(again, new)
        ]
    for name in again.kernels:
        for each in _dispatches(again, name):
            # What is dispatched is there, under the name by which it is called.
            assert each.executable.startswith(f"{name}_dispatch_")
            assert f"@{each.entry} " in again.executables[each.executable]


def test_equal_kernels_share_their_code(compiled: list[str], context: ir.Context) -> None:
    _library(context, a=SUM)
    library = _library(context, b=SUM, c=SUM, d=DIFFERENCE)
    assert len(library.executables) == 2
    assert _dispatches(library, "b")[0].executable == _dispatches(library, "c")[0].executable


def test_what_was_not_used_for_longest_is_forgotten(compiled: list[str], context: ir.Context) -> None:
    for name in ("a", "b", "c"):
        _library(context, **{name: SUM.replace("8", {"a": "4", "b": "8", "c": "16"}[name])})
    _library(context, again=SUM.replace("8", "4"))
    _library(context, new=SUM.replace("8", "32"))
    assert len(compiled) == 4
    _library(context, kept=SUM.replace("8", "4"))
    assert len(compiled) == 4
    _library(context, forgotten=SUM)
    assert len(compiled) == 5


# A constant that is a resource: its module has the bytes.
STORED = """
func.func private @{name}(%x: tensor<2xi64>) -> tensor<2xi64> {{
  %numbers = arith.constant dense_resource<numbers> : tensor<2xi64>
  %z = arith.addi %x, %numbers : tensor<2xi64>
  return %z : tensor<2xi64>
}}
{{-# dialect_resources: {{ builtin: {{ numbers: "0x08000000{first}000000000000000200000000000000" }} }} #-}}"""


def test_other_constants_under_one_name_are_other_code(compiled: list[str]) -> None:
    """Each context has names of its own."""
    found = list[str]()
    for first in ("01", "05", "01"):
        with ir.Context() as context, ir.Location.unknown():
            dialect.load(context)
            module = ir.Module.parse(STORED.format(name="stored", first=first), context)
            found.append("".join(compile_kernels(module, ["stored"], CPU).executables.values()))
    assert len(compiled) == 2
    assert found[0] == found[2] != found[1]


def test_large_code_is_not_kept(compiled: list[str], context: ir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmc.lowering.kernels.known_kernels._LONGEST", 100)
    _library(context, a=SUM)
    _library(context, b=SUM)
    assert len(compiled) == 2


def test_kernels_for_gpus_are_compiled_with_those_beside_them(compiled: list[str], context: ir.Context) -> None:
    module = ir.Module.parse(SUM.format(name="sum") + SUM.format(name="total"), context)
    for names in (["sum"], ["sum", "total"]):
        compile_kernels(module, names, CUDA)
    assert "@sum" in compiled[1] and "@total" in compiled[1]


def test_another_processor_has_code_of_its_own(compiled: list[str], context: ir.Context) -> None:
    for processor in ("cpu:x86-64-v3", "cpu:x86-64-v2", "cpu:x86-64-v3"):
        module = ir.Module.parse(SUM.format(name="sum"), context)
        library = compile_kernels(module, ["sum"], target(processor))
        assert processor.removeprefix("cpu:") in library.device
    assert len(compiled) == 2
