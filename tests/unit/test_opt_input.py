"""What dmc-opt says of input that is no MLIR: a clear diagnostic with the place, whatever the bytes are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dmc.cli import opt
from dmc.cli.main import main
from dmc.cli.mlir_text import MAX_NESTING, text_of
from dmc.errors import PipelineError

DEEP = 60_000


def _refused(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert opt.main([str(path), *options]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@pytest.mark.parametrize(
    ("opening", "closing"),
    [('"test.op"() ({\n', "}) : () -> ()\n"), ("#m = [", "]"), ("func.func private @f(tuple<", ">")],
)
def test_deep_nesting_is_an_error(tmp_path: Path, opening: str, closing: str) -> None:
    """In a process of its own: without the limit it ends by a signal."""
    (tmp_path / "in.mlir").write_text(opening * DEEP + closing * DEEP)
    command = [sys.executable, "-c", "import sys; from dmc.cli.opt import main; sys.exit(main())", "in.mlir"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: in.mlir:"), done.stderr[-500:]
    assert "brackets are nested more than 1,000 deep" in done.stderr


def test_nesting_counts_what_is_open_alone() -> None:
    many = "(" * MAX_NESTING
    assert text_of((many + ")" * MAX_NESTING).encode() * 3, "f") == (many + ")" * MAX_NESTING) * 3
    # Strings, comments, arrows and comparisons open and close nothing.
    assert text_of(f'{many}"((("//((\n-> >= <='.encode(), "f")
    with pytest.raises(PipelineError, match=r"f:2:1: brackets are nested"):
        text_of(f'{many}")" ->\n('.encode(), "f")
    with pytest.raises(PipelineError, match=r"f:1:1005: brackets are nested"):
        text_of(f"])}}>{many}(".encode(), "f")


def test_bytes_that_are_no_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "in.mlir"
    path.write_bytes("// café\nmodule { ".encode() + b"\xe9 }")
    said = f"error: {path}:2:10: byte 0xe9 is not text in UTF-8\n  hint: give a file with MLIR\n"
    for options in ((), ("--split-input-file",), ("--verify-diagnostics",)):
        assert _refused(capsys, path, *options) == said
    assert main(["plan", str(path)]) == 1
    assert f"{path}:2:10: byte 0xe9 is not text in UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("data", [bytes(range(256)) * 40, b"\0" * 1000, b"PK\3\4 no text \x80", b"ML\xefR garbage\xff"])
def test_rubbish_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path, data: bytes) -> None:
    (tmp_path / "in.mlir").write_bytes(data)
    assert "error: " in _refused(capsys, tmp_path / "in.mlir")


def test_a_directory_and_an_empty_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert _refused(capsys, tmp_path) == f"error: {tmp_path}: Is a directory\n"
    (tmp_path / "in.mlir").write_bytes(b"")
    assert opt.main([str(tmp_path / "in.mlir")]) == 0
    assert capsys.readouterr().out.split() == ["module", "{", "}"]
