"""`dmc ledger`: what it prints of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dmc.cli.main import main
from dmc.program.movements import Entry
from dmc.runtime.reports.ledger import Ledger
from tests.artifacts import artifact_of

Print = Callable[..., str]
LEDGER = Ledger(
    {"dp": 2},
    tuple(
        Entry(
            "all_reduce", f"gradient of h.{i}.w", "f32", (4, 4), ("dp",), 2, 128, 'data_parallel("dp")', f"gpt.py:{i}"
        )
        for i in range(10)
    ),
    (640, 640),
)


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Print:
    """What `dmc ledger` with some options prints of a step with a ledger; checks the exit code."""

    def call(*options: str, ledger: Ledger = LEDGER) -> str:
        path = tmp_path / "step.dmc"
        artifact_of(ledger=ledger).write(path)
        assert main(["ledger", str(path), *options]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    return call


def test_ten_layers_are_one_line(shown: Print, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # Of a terminal that the output does not go to.
    out = shown()
    assert out.startswith("mesh dp=2: 1.28 kB in one step, at most 640 B from one rank\n")
    (line,) = [line for line in out.splitlines() if "gradient of" in line]
    assert line.split("  ")[1].strip() == "gradient of h.*.w ×10"
    assert "1.28 kB" in line
    assert 'data_parallel("dp")' in line


def test_all_of_them(shown: Print) -> None:
    out = shown("--all")
    assert out.count("gradient of h.") == 10
    assert "gpt.py:7" in out


def test_sizes_in_bytes(shown: Print) -> None:
    assert shown("--bytes").startswith("mesh dp=2: 1,280 B in one step, at most 640 B from one rank\n")


def test_as_json(shown: Print) -> None:
    assert msgspec.json.decode(shown("--json"), type=Ledger) == LEDGER


def test_one_rank_says_so(shown: Print) -> None:
    assert shown(ledger=Ledger()) == "one rank: nothing is sent\n"
    assert json.loads(shown("--json", ledger=Ledger()))["entries"] == []


def test_a_narrow_terminal_folds(shown: Print, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    out = shown()
    assert max(map(len, out.splitlines())) <= 70
    assert "1.28 kB" in out
