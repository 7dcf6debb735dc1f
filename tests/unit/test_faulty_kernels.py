"""Kernels that take IREE's compiler down: found alone, compiled in another way, or refused by name."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import CodegenError
from dmc.lowering.iree import compiler
from dmc.lowering.kernel_code import CodeLibrary, Dispatch, leaves
from dmc.lowering.kernels.kernels import WAYS, compile_kernels
from dmc.target import CPU
from tests.faulty_iree import given, has, put_fault

# Two loops that IREE makes one dispatch of, unless it must not.
KERNEL = """
func.func private @{name}(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  %y = math.exp %x : tensor<{size}xf32> loc("h.0#aten.exp"("model.py":12:3))
  %z = math.sqrt %y : tensor<{size}xf32>
  return %z : tensor<{size}xf32>
}} loc("h.0#aten.exp"("model.py":12:3))"""
NAMES = ("one", "bad", "two")
BAD, AGGRESSIVE = has("func @bad("), given("aggressive-fusion")
APART = has("compute_barrier")


def _compiled(size: int, *names: str) -> CodeLibrary:
    """The code of kernels of a size that no other test compiles: a process keeps the last."""
    text = "".join(KERNEL.format(name=name, size=size << number) for number, name in enumerate(names))
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return compile_kernels(ir.Module.parse(text), names, CPU)


def _dispatches(library: CodeLibrary, name: str) -> int:
    return sum(isinstance(each, Dispatch) for each in leaves(library.kernels[name].commands))


@pytest.mark.parametrize(("fault", "size"), [("crashed", 100), ("refused", 101)])
def test_one_kernel_is_compiled_in_another_way(
    fault: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_fault(fault, f"{BAD} && {AGGRESSIVE}", tmp_path, monkeypatch)
    assert _compiled(size, *NAMES).ways == {"one": 0, "bad": 1, "two": 0}


def test_its_operations_are_compiled_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_fault("crashed", f"{BAD} && ! {APART}", tmp_path, monkeypatch)
    library = _compiled(200, *NAMES)
    assert library.ways == {"one": 0, "bad": 2, "two": 0}
    assert [_dispatches(library, name) for name in NAMES] == [1, 2, 1]


def test_a_hang_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "PATIENCE_S", 3.0)
    monkeypatch.setattr(compiler, "EACH_S", 0.0)
    put_fault("late", f"{BAD} && {AGGRESSIVE}", tmp_path, monkeypatch)
    assert _compiled(300, "bad").ways == {"bad": 1}


def test_what_no_way_compiles_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_fault("crashed", BAD, tmp_path, monkeypatch)
    with pytest.raises(CodegenError) as raised:
        _compiled(400, *NAMES)
    assert raised.value.place == "kernel @bad, h.0#aten.exp (model.py:12)"
    assert raised.value.fact == "IREE's compiler crashes with signal 11"
    (file,) = [Path(word.rstrip(",")) for word in raised.value.hint.split() if word.startswith("/")]
    head, body = file.read_text().split("\n", 1)
    assert shlex.split(head)[:3] == ["//", "iree-compile", str(file)]
    assert "@bad(" in body and "@one(" not in body
    assert len(WAYS) == 3, "each of which was tried"
    file.unlink()
