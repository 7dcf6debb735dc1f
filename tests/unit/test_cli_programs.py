"""`--program`: the program of a file that a command shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dmc.cli.main import main
from dmc.program import Job
from dmc.program.movements import Entry
from dmc.runtime.files.artifact import EVALUATION, Artifact
from dmc.runtime.reports.ledger import Ledger
from tests.artifacts import artifact_of
from tests.hand_made_jobs import Rank, job_of
from tests.linear_step import SIGNATURE

Print = Callable[..., str]
WALKTHROUGH = Path(__file__).parents[2] / "docs" / "walkthrough" / "04-planned.mlir"
EVALUATED = replace(SIGNATURE, controls=(), outputs=(SIGNATURE.outputs[0], *SIGNATURE.outputs[2:]))


def _artifact(ns: int, name: str) -> Artifact:
    """A launch and a movement, both of this name."""
    job: Job = job_of(Rank().launch(ns, f"launch of {name}"))
    sent = Entry("all_reduce", name, "f32", (4,), ("dp",), 2, 1, "rule", label=name)
    return artifact_of(job, ledger=Ledger({"dp": 2}, (sent,), (4, 4)))


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Print:
    """What a command prints of a file with a step, a step for another shape, and an evaluation."""
    path = tmp_path / "step.dmc"
    evaluation = replace(_artifact(2000, EVALUATION), state=(), signature=EVALUATED)
    programs = {EVALUATION: evaluation, "training-1": replace(_artifact(3000, "training-1"), state=())}
    replace(_artifact(1000, "training"), programs=programs).write(path)

    def call(command: str, *options: str, code: int = 0) -> str:
        assert main([command, str(path), *options]) == code
        out, error = capsys.readouterr()
        return error if code else out

    return call


@pytest.mark.parametrize("name", ["", EVALUATION, "training-1"])
def test_the_program_of_that_name_is_shown(printed: Print, name: str) -> None:
    chosen, label = ("--program", name) if name else (), name or "training"
    assert f"launch of {label} " in printed("plan", *chosen)
    assert f"launch of {label}\n" in printed("memory", *chosen)
    assert [each["label"] for each in json.loads(printed("ledger", "--json", *chosen))["entries"]] == [label]
    found = json.loads(printed("simulate", "--machine", "h100", "--json", *chosen))
    others = {
        each: json.loads(printed("simulate", "--machine", "h100", "--json", "--program", each))
        for each in ("training", EVALUATION, "training-1")
    }
    assert [each for each, other in others.items() if other == found] == [label]


def test_a_file_tells_its_programs(printed: Print) -> None:
    whole = printed("inspect")
    assert "programs training, evaluation, training-1\n" in whole
    assert "step(x, {'y': y, 'ids': ids}, mask=mask, mean=True) -> loss, {'pred': pred, 'more': [rows, None]}" in whole
    assert "learning rates: 0.1, 0.05\n" in whole
    evaluation = printed("inspect", "--program", EVALUATION)
    assert "step.evaluate(x, {'y': y, 'ids': ids}, mask=mask, mean=True) -> loss, {'pred': pred, " in evaluation
    assert "learning rates" not in evaluation
    report = json.loads(printed("inspect", "--json", "--program", EVALUATION))
    assert report["programs"] == ["training", "evaluation", "training-1"]


@pytest.mark.parametrize("command", ["inspect", "memory", "plan", "ledger"])
def test_a_program_that_is_not_there(printed: Print, command: str) -> None:
    error = printed(command, "--program", "training-2", code=1)
    assert "step.dmc: has no program 'training-2'\n  hint: it has training, evaluation, training-1\n" in error


def test_a_module_is_one_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(WALKTHROUGH), "--program", EVALUATION]) == 1
    assert "has no program 'evaluation'\n  hint: MLIR in form planned is one program\n" in capsys.readouterr().err
