"""torch-mlir in a process of its own: what makes it crash or does not finish is named, and nothing else ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc import dialect
from dmc._mlir import ir
from dmc.errors import DmcError, ImportFailure
from dmc.importer.forward.precision import Precision
from dmc.importer.linalg import apart, culprit
from dmc.importer.step import import_step

FAULT = [sys.executable, "-m", "tests.faulty_torch_mlir"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x).tanh()
        return y.exp().square().sum()


def _import(model: nn.Module | None = None, batch: Tensor | None = None) -> ir.Module:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        given = (torch.ones(2, 4) if batch is None else batch,)
        return import_step(model or Model(), None, dmc.optim.SGD(lr=0.1), given, Precision.FP32, 1, 0, context).module


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    apart.SERVER.end()
    yield
    apart.SERVER.end()


def _raised(fault: str, text: str, monkeypatch: pytest.MonkeyPatch) -> ImportFailure:
    monkeypatch.setattr(apart, "COMMAND", [*FAULT, fault, text])
    with pytest.raises(ImportFailure) as raised:
        _import()
    return raised.value


def _file(error: ImportFailure) -> Path:
    (file,) = [Path(word) for word in error.hint.split() if word.startswith("/")]
    return file


def test_a_crash_names_the_operation_and_leaves_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    error = _raised("crashed", "torch.aten.exp", monkeypatch)
    assert error.fact == "aten.exp cannot be compiled (torch-mlir crashes with SIGSEGV)"
    lines = Path(__file__).read_text().split("\n")
    line = next(number for number, text in enumerate(lines, 1) if "y.exp()" in text)
    assert error.place == f"the model or its loss ({__file__}:{line})"
    file = _file(error)
    text = file.read_text()
    assert "torch.aten.exp" in text and "torch.aten.tanh" not in text
    # Without the fault, its command works.
    command = [sys.executable, *text.split("\n")[0].removeprefix("// python ").replace("'", "").split(" ")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Refusal" not in done.stdout
    file.unlink()


def test_what_does_not_finish_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "PATIENCE_S", 2)
    monkeypatch.setattr(culprit, "ALONE_S", 1)
    error = _raised("late", "torch.aten.exp", monkeypatch)
    assert error.fact == "aten.exp cannot be compiled (torch-mlir does not finish within 2 s)"
    _file(error).unlink()


def test_where_no_operation_crashes_alone_the_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = _raised("crashed", "@gradients", monkeypatch)
    assert error.place == "the step"
    file = _file(error)
    assert "torch.aten.tanh" in file.read_text()
    file.unlink()


def test_the_next_step_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    _file(_raised("crashed", "torch.aten.exp", monkeypatch)).unlink()
    monkeypatch.undo()
    assert "linalg.generic" in str(_import())


class Dilated(nn.Module):
    """The gradient of a dilated convolution with a padding as large as the image, which torch-mlir refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 5, 1, 5))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(self.weight, self.weight.tanh(), dilation=2, padding=2).sum() * x.sum()


def test_what_torch_mlir_refuses_is_named() -> None:
    with pytest.raises(ImportFailure, match="cannot be compiled") as raised:
        _import(Dilated(), torch.ones(5, 5))
    assert __file__ in raised.value.place


def test_a_forked_process_has_one_of_its_own() -> None:
    _import()
    before = apart.SERVER.process
    assert before is not None
    # As if another thread were compiling.
    with apart.SERVER.lock:
        child = os.fork()
        if not child:
            _import()
            own = apart.SERVER.process
            os._exit(0 if own is not None and own.pid != before.pid else 1)
        assert _status_of(child) == 0, "a process that is forked waits for a lock that nobody releases"
    assert "linalg.generic" in str(_import()) and apart.SERVER.process is before


def _status_of(child: int) -> int:
    """The status that a child ends with; one that does not end within 60 s is killed."""
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def test_a_file_beside_the_user_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("raise RuntimeError('not the library')")
    monkeypatch.chdir(tmp_path)
    assert "linalg.generic" in str(_import())


def test_a_process_that_does_not_start_is_no_crash_of_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "COMMAND", [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(DmcError, match="the process of its passes ends with exit status 3"):
        _import()


def test_an_alarm_that_is_ignored_here_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        test_what_does_not_finish_is_ended(monkeypatch)
    finally:
        signal.signal(signal.SIGALRM, before)
