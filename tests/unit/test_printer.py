"""IR for people: nothing that an operation reads, makes or is called is lost; `dmc inspect --ir` prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.cli.main import main
from dmc.printer import printed
from dmc.printer.scopes import stands_for
from dmc.walk import walk
from tests.artifacts import artifact_of

TESTS = Path(__file__).resolve().parents[1]
VALID = sorted(path for path in (TESTS / "dialect").glob("*.mlir") if not path.stem.endswith("_invalid"))
FORMS = sorted((TESTS.parent / "docs" / "walkthrough").glob("*.mlir"))


@pytest.mark.parametrize("path", [*VALID, *FORMS], ids=lambda path: path.stem)
def test_every_value_and_every_operation_has_its_place(path: Path) -> None:
    with ir.Context() as context:
        dialect.load(context)
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(path.read_text(encoding="utf-8"))
        text, state = printed(module), ir.AsmState(module.operation)
        for op in walk(module.operation):
            if op.name == "linalg.generic" or op.parent is None or op.parent.name.startswith("linalg."):
                continue
            if stands_for(op) is None and op.name not in ("dm.start", "dm.yield", "builtin.module"):
                names = [each.get_name(state) for each in op.results if str(each.type) != "!dm.token"]
                # Of a start, the movement is on its line, without the value that it yields.
                names = [] if op.parent.name == "dm.start" else names
                shown = op.attributes["kind"].value if op.name == "dm.collective" else op.name.partition(".")[2]
                assert all(re.search(rf"{re.escape(name)}(?!\d)", text) for name in names), (names, text)
                assert re.search(rf"(^|[ :]){shown}\b", text, re.MULTILINE), (shown, text)
    assert max(map(len, text.splitlines())) < 300


def test_inspect_prints_a_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "step.dmc")
    artifact_of().write(path)
    assert main(["inspect", path, "--ir", "imported"]) == 0
    assert "\n  func @step(\n" in (text := capsys.readouterr().out)
    assert "tensor<" not in text
    assert main(["inspect", path, "--ir", "placed"]) == 1
    assert "has no form 'placed'\n  hint: its forms are imported\n" in capsys.readouterr().err
