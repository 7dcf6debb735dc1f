"""Every refusal that a verifier of `dm` can give is met by a test."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.rules import Violation
from dmc.errors import DmcError
from tests.unit import plan_cases
from tests.unit.symbol_cases import CASES, PRELUDE

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "dmc/dialect").glob("*.py"))
REFUSALS = sorted((ROOT / "tests/dialect").glob("*_invalid.mlir"))

# Met in test_dialect_build.py: the text would be very long.
IN_PYTHON = {("runs.py", "lengths")}


def test_every_violation_is_met(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    met: set[tuple[str, int]] = set()
    original = Violation.__init__

    def record(self: Violation, *arguments: object) -> None:
        caller = inspect.stack(context=0)[1]
        met.add((Path(caller.filename).name, caller.lineno))
        original(self, *arguments)

    monkeypatch.setattr(Violation, "__init__", record)
    for text in _refused_texts():
        with pytest.raises((ir.MLIRError, DmcError)):
            dm.verify_symbols(ir.Module.parse(text))
    for case in (*CASES, *plan_cases.CASES):
        with pytest.raises(DmcError):
            dm.verify_symbols(ir.Module.parse(PRELUDE + case.text))
    missed = [
        f"{path.name}:{first}"
        for path in SOURCES
        for first, last, function in _raises(path)
        if (path.name, function) not in IN_PYTHON
        and not any((path.name, line) in met for line in range(first, last + 1))
    ]
    assert missed == []


def _refused_texts() -> Iterator[str]:
    for path in REFUSALS:
        yield from path.read_text().split("// -----")


def _raises(path: Path) -> Iterator[tuple[int, int, str]]:
    """First line, last line and function of each `raise Violation(...)`."""
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Raise)
                and isinstance(node.exc, ast.Call)
                and ast.unparse(node.exc.func) == "Violation"
            ):
                yield node.lineno, node.end_lineno or node.lineno, function.name
