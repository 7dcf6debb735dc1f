"""The `dmc` command line: what it prints, and what it says when it cannot."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

import dmc
from dmc.cli.main import main
from dmc.errors import ImportFailure
from dmc.observer import Observer, RecordingObserver
from dmc.program.sizes import size_text
from dmc.progress import BarObserver, PlainObserver
from dmc.runtime import Artifact
from tests.artifacts import artifact_of
from tests.linear_step import SIGNATURE

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `dmc` with arguments; gives exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def _artifact(**changes: Any) -> Artifact:
    return artifact_of(modules={"cpu": b"x" * 2000}, requires=("x86_64", "avx2", "fma"), **changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    _artifact().write(tmp_path / "step.dmc")
    return tmp_path / "step.dmc"


def test_inspect_shows_the_signature_and_the_sizes(run: Run, path: Path) -> None:
    code, out, err = run("inspect", path)
    assert (code, err) == (0, "")
    assert "step(x, {'y': y, 'ids': ids}, mask=mask, mean=True) -> loss, {'pred': pred, 'more': [rows, None]}" in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "target cpu, precision fp32",
        "runs on x86_64, avx2, fma",
        "ids i64[4]",
        "learning rates: 0.1, 0.05",
        "memory (10 parameters, 8 state tensors)",
        "weights 36 B",
        "optimizer state 32 B",
        "buffers 20 B",
        "code, cpu 2.00 kB",
        "linalg.generic 10",
    ):
        assert line in lines


def test_inspect_as_json(run: Run, tmp_path: Path) -> None:
    _artifact(statistics={"dispatches": 7}).write(tmp_path / "step.dmc")
    code, out, _ = run("inspect", tmp_path / "step.dmc", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["statistics"] == {"dispatches": 7}
    assert report["file_bytes"] == (tmp_path / "step.dmc").stat().st_size
    assert report["forms"]["01-imported"]["ops"]["linalg.matmul"] == 1
    assert report["state"][2] == {
        "name": "scale",
        "dtype": "bf16",
        "shape": [2],
        "role": "frozen",
        "mutated": False,
        "aliases": ["head.scale"],
    }


def test_inspect_shows_the_mesh_and_what_one_rank_holds(run: Run, tmp_path: Path) -> None:
    dp, rows = (("dp", 1),), (("dp", 2), ("tp", 1))
    splits = {"weight.momentum": ((), dp), "bias.momentum": (dp,), "y": (rows, ())}
    signature = dataclasses.replace(SIGNATURE, mesh={"dp": 2, "tp": 2}, splits=splits)
    _artifact(signature=signature).write(tmp_path / "step.dmc")
    code, out, err = run("inspect", tmp_path / "step.dmc")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "mesh dp=2, tp=2: 4 ranks in one process",
        "y f32[4, 2], split [2×dp tp, -]",
        "mask i1[4]",
        "whole one rank",
        "weights 36 B 36 B",
        "optimizer state 32 B 16 B",
    ):
        assert line in lines
    report = json.loads(run("inspect", tmp_path / "step.dmc", "--json")[1])
    assert (report["mesh"], report["rank_bytes"]["optimizer state"]) == ({"dp": 2, "tp": 2}, 16)
    assert report["inputs"][1]["splits"] == [[["dp", 2], ["tp", 1]], []]


def test_an_error_is_one_message(run: Run, tmp_path: Path) -> None:
    code, out, err = run("inspect", tmp_path / "none.dmc")
    assert (code, out) == (1, "")
    assert err.startswith(f"dmc: error: {tmp_path / 'none.dmc'}: no such file\n  hint: ")
    code, out, err = run("run", tmp_path / "none.dmc", "--steps", 1, "--batches", "b.npz")
    assert (code, out) == (1, "")
    assert "Traceback" not in err


def test_bad_usage_is_told_by_argparse(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("run", "step.dmc", "--steps", 0, "--batches", "b.npz")
    assert "expected a number above 0, got 0" in capsys.readouterr().err


MODULE = """
calls = []
def make_step():
    return {"model": "a model", "optimizer": "an optimizer", "example": (1, 2), "target": "cpu"}
def wrong_type():
    return 5
def wrong_key():
    return {"model": 1, "optimiser": 2, "example": 3}
not_a_function = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current directory; its name is new each time, so that no test sees another's."""
    name = f"steps_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return name


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A compiler that notes what it is asked for."""
    seen: list[dict[str, Any]] = []

    def compile_artifact(
        *,
        model: Any,
        optimizer: Any,
        example: Any,
        target: str = "cpu",
        executor: str | None = None,
        machine: str | None = None,
        memory_cap: int | None = None,
        tuning: str | None = None,
        dump_dir: str | None = None,
        observer: Observer | None = None,
    ) -> Artifact:
        assert observer is not None
        asked = {"model": model, "optimizer": optimizer, "example": example, "target": target, "dump_dir": dump_dir}
        seen.append({**asked, "executor": executor, "machine": machine, "memory_cap": memory_cap, "tuning": tuning})
        observer.plan(["import", "iree"])
        with observer.stage("import"):
            if target == "cuda":
                raise ImportFailure("aten.foo at model.layer", "has no lowering", hint="write it otherwise")
        return _artifact()

    monkeypatch.setattr(dmc, "compile_artifact", compile_artifact, raising=False)
    return seen


def test_compile_writes_what_the_function_describes(
    run: Run, module: str, compiler: list[dict[str, Any]], tmp_path: Path
) -> None:
    code, out, err = run("compile", f"{module}:make_step", "-o", "gpt.dmc", "--dump-dir", "dump")
    assert code == 0
    asked = {"model": "a model", "optimizer": "an optimizer", "example": (1, 2), "target": "cpu", "dump_dir": "dump"}
    assert compiler == [{**asked, **dict.fromkeys(("executor", "machine", "memory_cap", "tuning"))}]
    assert [line.split()[:-2] for line in err.splitlines()] == [["build", "model"], ["import"], ["write"]]
    assert out == f"gpt.dmc: {size_text((tmp_path / 'gpt.dmc').stat().st_size)}, 8 state tensors\n"
    assert Artifact.read(tmp_path / "gpt.dmc").signature == SIGNATURE


def test_options_go_before_what_the_function_says(run: Run, module: str, compiler: list[dict[str, Any]]) -> None:
    options = "--target cpu+cuda --executor static --machine h200x4 --memory-cap 4kB --no-weights".split()
    code, _, err = run("compile", f"{module}:make_step", "-o", "gpt.dmc", *options)
    assert code == 0, err
    asked = {"target": "cpu+cuda", "executor": "static", "machine": "h200x4", "memory_cap": 4000}
    assert {name: compiler[0][name] for name in asked} == asked
    assert Artifact.read("gpt.dmc").unset == {"weight", "bias", "scale", "seen"}


def test_a_table_beside_the_output_is_taken_unless_another_is_named(
    run: Run, module: str, compiler: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "gpt.tuning.json").write_text("{}")
    for options in ("cpu+cuda", "-o", "bert.dmc"), ("cpu+cuda",), ("cpu",), ("cpu+cuda", "--tuning", "other.json"):
        run("compile", f"{module}:make_step", "-o", "gpt.dmc", "--target", *options)
    assert [asked.get("tuning") for asked in compiler] == [None, "gpt.tuning.json", None, "other.json"]


@pytest.mark.usefixtures("compiler")
def test_quiet_is_silent(run: Run, module: str) -> None:
    assert run("compile", f"{module}:make_step", "-o", "gpt.dmc", "--quiet") == (0, "", "")


@pytest.mark.usefixtures("compiler")
def test_a_compiler_error_is_one_message(run: Run, module: str, tmp_path: Path) -> None:
    code, out, err = run("compile", f"{module}:make_step", "-o", "gpt.dmc", "--target", "cuda")
    assert (code, out) == (1, "")
    stage, seconds, *rest = err.splitlines()[1].split()
    assert (stage, float(seconds) >= 0.0, rest) == ("import", True, ["s", "failed"])
    assert err.endswith("dmc: error: aten.foo at model.layer: has no lowering\n  hint: write it otherwise\n")
    assert not (tmp_path / "gpt.dmc").exists()


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{}", "is not module:function"),
        ("{}:", "is not module:function"),
        ("{}_none:make_step", "no module '{}_none' from"),
        ("{}_broken:make_step", "imports 'module_that_is_not_there', which is not installed"),
        ("{}:make_stop", "module '{}' has no function 'make_stop'"),
        ("{}:not_a_function", "module '{}' has no function 'not_a_function'"),
        ("{}:wrong_type", "returned int, expected a dict of keyword arguments for dmc.compile"),
        ("{}:wrong_key", "dmc.compile does not accept optimiser and requires optimizer"),
    ],
)
def test_a_source_that_is_no_step(run: Run, module: str, source: str, message: str) -> None:
    code, _, err = run("compile", source.format(module), "-o", "gpt.dmc", "--quiet")
    assert code == 1
    assert err.startswith(f"dmc: error: {source.format(module)}: {message.format(module)}")


def test_output_is_checked_before_the_work(run: Run, module: str, compiler: list[dict[str, Any]]) -> None:
    code, _, err = run("compile", f"{module}:make_step", "-o", "no/where/gpt.dmc")
    assert (code, compiler) == (1, [])
    assert err.startswith("dmc: error: no/where/gpt.dmc: its directory does not exist")


def _compile_with(observer: Observer) -> None:
    observer.plan(["import", "iree"])
    with observer.stage("import"):
        pass
    with observer.stage("iree"):
        raise ZeroDivisionError


def test_observers_see_times_and_failures() -> None:
    recording = RecordingObserver()
    with pytest.raises(ZeroDivisionError):
        _compile_with(recording)
    assert recording.planned == ("import", "iree")
    assert [(time.name, time.failed) for time in recording.times] == [("import", False), ("iree", True)]
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError):
        _compile_with(PlainObserver(stream))
    words = [line.split() for line in stream.getvalue().splitlines()]
    assert [[stage, *rest] for stage, _, *rest in words] == [["import", "s"], ["iree", "s", "failed"]]


def test_the_bar_counts_finished_stages() -> None:
    stream = io.StringIO()
    with Progress(console=Console(file=stream, force_terminal=True, width=80)) as progress:
        observer = BarObserver(progress)
        with observer.stage("not planned"):
            pass
        with pytest.raises(ZeroDivisionError):
            _compile_with(observer)
        task = progress.tasks[0]
        assert (task.total, task.completed, task.description) == (3, 2, "iree")
    assert "import" in stream.getvalue()


def test_import_dmc_loads_no_framework() -> None:
    program = (
        "import sys, dmc, dmc.cli.main; "
        "print(*sorted({'torch', 'torch_mlir', 'iree.compiler', 'transformers', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_names_of_the_package() -> None:
    assert set(dmc.__all__) <= set(dir(dmc))
    assert dmc.runtime.Artifact is Artifact
    with pytest.raises(AttributeError, match="module 'dmc' has no attribute 'nothing'"):
        _ = dmc.nothing
