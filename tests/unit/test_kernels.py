"""Kernel bodies, compiled by IREE to the commands that carry them out."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import DmcError
from dmc.lowering.kernel_code import CodeLibrary, Copy, Dispatch, Fill, leaves
from dmc.lowering.kernels import kernels
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.program.contract import is_safe_in_place
from dmc.target import CPU

SUM = """
func.func private @{name}(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {{
  %z = arith.addf %x, %y : tensor<8xf32>
  return %z : tensor<8xf32>
}}"""
MOMENTUM = """
func.func private @momentum(%w: tensor<8xf32>, %m: tensor<8xf32>, %g: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %rate = arith.constant dense<0.9> : tensor<8xf32>
  %kept = arith.mulf %m, %rate : tensor<8xf32>
  %next = arith.addf %kept, %g : tensor<8xf32>
  %new = arith.subf %w, %next : tensor<8xf32>
  return %new, %next : tensor<8xf32>, tensor<8xf32>
}"""
TABLE = """
func.func private @table(%i: tensor<4xi64>) -> tensor<4xi64> {
  %table = arith.constant dense<[3, 1, 4, 1, 5, 9, 2, 6]> : tensor<8xi64>
  %empty = tensor.empty() : tensor<4xi64>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%i : tensor<4xi64>) outs(%empty : tensor<4xi64>) {
  ^bb0(%each: i64, %out: i64):
    %index = arith.index_cast %each : i64 to index
    %found = tensor.extract %table[%index] : tensor<8xi64>
    linalg.yield %found : i64
  } -> tensor<4xi64>
  return %z : tensor<4xi64>
}"""
REPEATED = """
func.func private @repeated(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  return %x, %x, %zero : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}"""
STORED = """
func.func private @stored() -> tensor<4xi64> {
  %z = arith.constant dense<[3, 1, 4, 1]> : tensor<4xi64>
  return %z : tensor<4xi64>
}"""
KEPT_WHOLE = """
func.func private @whole(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %z = "dm.composite"(%x, %y) {kind = "sum", decomposition = @meaning, parameters = {}}
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}"""

# Rows of a table less their sums: where a row is long, IREE joins the loops and finds no room for it on the stack.
CENTRED = """
func.func private @rows_of_{width}(%places: tensor<1024xi64>, %table: tensor<4096x{width}xf32>)
    -> tensor<1024x{width}xf32> {{
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<1024x{width}xf32>
  %empty = tensor.empty() : tensor<1024xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024xf32>) -> tensor<1024xf32>
  %found = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
                           iterator_types = ["parallel", "parallel"]}}
      ins(%places : tensor<1024xi64>) outs(%rows : tensor<1024x{width}xf32>) {{
  ^bb0(%place: i64, %out: f32):
    %i = arith.index_cast %place : i64 to index
    %j = linalg.index 1 : index
    %x = tensor.extract %table[%i, %j] : tensor<4096x{width}xf32>
    linalg.yield %x : f32
  }} -> tensor<1024x{width}xf32>
  %sums = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
                          iterator_types = ["parallel", "reduction"]}}
      ins(%found : tensor<1024x{width}xf32>) outs(%zeros : tensor<1024xf32>) {{
  ^bb0(%x: f32, %sum: f32):
    %next = arith.addf %x, %sum : f32
    linalg.yield %next : f32
  }} -> tensor<1024xf32>
  %z = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      ins(%found, %sums : tensor<1024x{width}xf32>, tensor<1024xf32>) outs(%rows : tensor<1024x{width}xf32>) {{
  ^bb0(%x: f32, %sum: f32, %out: f32):
    %less = arith.subf %x, %sum : f32
    linalg.yield %less : f32
  }} -> tensor<1024x{width}xf32>
  return %z : tensor<1024x{width}xf32>
}}"""


def compiled(text: str, *names: str) -> CodeLibrary:
    """The code of the functions of these names."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return compile_kernels(ir.Module.parse(text), names, CPU)


def dispatches(library: CodeLibrary, name: str) -> Iterable[Dispatch]:
    """The dispatches of a kernel."""
    return [each for each in leaves(library.kernels[name].commands) if isinstance(each, Dispatch)]


def test_equal_kernels_share_their_executable() -> None:
    library = compiled(SUM.format(name="one") + SUM.format(name="two"), "one", "two")
    ((one,), (two,)) = dispatches(library, "one"), dispatches(library, "two")
    assert (one.executable, one.entry) == (two.executable, two.entry)
    assert list(library.executables) == [one.executable]
    assert f"@{one.entry}" in library.executables[one.executable]
    assert [binding.place.role for binding in one.bindings] == ["read", "read", "write"]


def test_a_new_state_may_take_the_place_of_the_old() -> None:
    phases = compiled(MOMENTUM, "momentum").kernels["momentum"].phases()
    assert [is_safe_in_place(phases, i, i) for i in range(2)] == [True, True]


def test_a_small_constant_is_in_the_code() -> None:
    library = compiled(TABLE, "table")
    (only,) = dispatches(library, "table")
    assert "3, 1, 4, 1, 5, 9, 2, 6" in library.executables[only.executable]


def test_copies_and_fills_are_commands() -> None:
    code = compiled(REPEATED, "repeated").kernels["repeated"]
    commands = list(leaves(code.commands))
    assert sorted(type(each).__name__ for each in commands) == ["Copy", "Copy", "Fill"]
    assert {each.target.index for each in commands if isinstance(each, Copy | Fill)} == {0, 1, 2}
    assert code.scratch == 0


def test_only_what_is_too_large_for_one_dispatch_becomes_several() -> None:
    library = compiled(CENTRED.format(width=512) + CENTRED.format(width=2048), "rows_of_512", "rows_of_2048")
    assert len(list(dispatches(library, "rows_of_512"))) == 1
    assert len(list(dispatches(library, "rows_of_2048"))) > 1


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (STORED, "stored", "kernel @stored, -:2: IREE compiles it to a util.global.load"),
    ],
)
def test_what_is_no_kernel(text: str, name: str, message: str) -> None:
    with pytest.raises(DmcError, match=message):
        compiled(text, name)


def test_a_composite_is_what_it_means() -> None:
    opened = compiled(KEPT_WHOLE + SUM.format(name="meaning"), "whole").kernels
    plain = compiled(SUM.format(name="whole"), "whole").kernels
    assert opened == plain
    assert len(list(leaves(opened["whole"].commands))) == 1


def test_asking_again_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = SUM.format(name="again")
    first = compiled(text, "again")
    monkeypatch.setattr(kernels, "stream_text", lambda *_: pytest.fail("compiled again"))
    assert compiled(text, "again") is first
