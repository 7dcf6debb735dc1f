"""What is shown while a step is compiled: on a terminal a bar, elsewhere lines, at once and every few seconds."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time

import pytest

from dmc import progress
from dmc.observer import Observer

LINE = re.compile(r"dmc: compiling for \d+ s: \w+, [01] of 2 stages done\n")


def _stages(observer: Observer, seconds: float) -> None:
    observer.plan(("imported", "placed"))
    with observer.stage("imported"):
        time.sleep(seconds)
    with observer.stage("placed"):
        pass


def test_a_log_gets_a_line_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.05)
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    stream = io.StringIO()
    with progress.shown(None, stream) as observer:
        _stages(observer, 0.5)
    lines = stream.getvalue().splitlines(keepends=True)
    assert len(lines) >= 2 and all(map(LINE.fullmatch, lines))
    time.sleep(0.2)
    assert stream.getvalue() == "".join(lines), "the thread has ended"


def test_a_short_compilation_logs_nothing() -> None:
    stream = io.StringIO()
    with progress.shown(None, stream) as observer:
        _stages(observer, 0.0)
    assert stream.getvalue() == ""


def test_all_stages_are_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.05)
    stream = io.StringIO()
    with progress.shown(True, stream) as observer:
        _stages(observer, 0.2)
    first, *others = stream.getvalue().splitlines(keepends=True)
    assert LINE.fullmatch(first)
    assert [line.split()[0] for line in others] == ["imported", "placed"]


def test_nothing_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.01)
    stream = io.StringIO()
    with progress.shown(False, stream) as observer:
        _stages(observer, 0.1)
    assert stream.getvalue() == ""


def test_the_first_line_comes_within_two_seconds() -> None:
    assert progress.FIRST_S < 2.0
    code = "import time; from dmc.progress import shown\nwith shown() as seen:\n    time.sleep(1.9)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"dmc: compiling for \d s: begins, 0 stages done\n", result.stderr)
