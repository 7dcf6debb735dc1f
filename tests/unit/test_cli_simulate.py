"""`dmc simulate`: what it prints and writes of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.gpt_job import Shape, gpt_job
from dmc.cli.main import main
from dmc.cli.simulate_tables import print_summary
from dmc.machine import cost_table_hash, machine
from dmc.program import Collective, Command, Job, Move
from dmc.program.kernel import types_of
from dmc.program.movements import Entry
from dmc.program.tuning import Choice, Table
from dmc.runtime.reports.ledger import Ledger
from dmc.simulator import simulate
from dmc.simulator.summary import summarise
from tests.artifacts import artifact_of
from tests.linear_step import SIGNATURE

Call = Callable[..., tuple[int, str, str]]
JOB = gpt_job(Shape(layers=2, width=64, tokens=128), 4)
RULE, OPERATION = 'data_parallel("dp")', "#aten.sqrt"
LEDGER = Ledger(
    {"dp": 4},
    (
        Entry("all_reduce", "gradient of h.1", "bf16", (49152,), ("dp",), 4, 1, RULE, label="gradient of h.1"),
        Entry("all_reduce", "", "f32", (), ("dp",), 4, 1, OPERATION),
    ),
)


@pytest.fixture
def called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Exit code, output and errors of `dmc simulate` with some options, of a step with a job."""

    def call(*options: str, job: Job = JOB, costs: str = "") -> tuple[int, str, str]:
        path = tmp_path / "gpt.dmc"
        artifact_of(job, costs, ledger=LEDGER).write(path)
        code = main(["simulate", str(path), *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def _labelled_once(job: Job) -> Job:
    """The job in which only one movement says what it moves."""

    def bare(command: Command) -> Command:
        is_bare = isinstance(command, Move | Collective) and command.label != "gradient of h.1"
        return msgspec.structs.replace(command, label="") if is_bare else command

    return job.mapped(lambda each: msgspec.structs.replace(each, commands=tuple(map(bare, each.commands))))


def _figures(called: Call, *options: str) -> dict[str, Any]:
    code, out, err = called("--json", *options)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_tables(called: Call) -> None:
    code, out, err = called("--machine", "h200x4")
    assert (code, err) == (0, "")
    assert out.startswith("4 ranks of h200x4; cost table ")
    for title in (
        "exposed communication",
        "What computation waits for",
        "Lanes",
        "Critical path",
        "Device memory at the peak",
    ):
        assert title in out
    assert "gradient of h." in out
    assert "h.*.attention forward" in out
    assert "copy_in" in out
    assert "activation" in out


def test_what_is_left_out_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    summary = summarise(simulate(JOB, machine("h200x4")))
    print_summary(replace(summary, contributors=(summary.contributors[0],) * 13), (), 160)
    assert "and 1 more line " in capsys.readouterr().out


def test_as_json(called: Call) -> None:
    found = _figures(called, "--machine", "h200x4")
    assert (found["machine"], found["ranks"], found["played"]) == ("h200x4", 4, 4)
    assert len(found["waits"]) == len(found["memory"]) == 4
    for rank in found["waits"]:
        parts = rank["busy"] + rank["communication"] + rank["copies"] + rank["others"]
        assert parts == pytest.approx(found["step_ns"])
    assert sum(part["share"] for part in found["contributors"]) == pytest.approx(1)


def test_more_ranks_than_it_was_planned_for(called: Call) -> None:
    found = _figures(called, "--machine", "node8", "--ranks", "1024")
    assert (found["ranks"], found["played"]) == (1024, 1)
    assert found["step_ns"] > _figures(called, "--machine", "h200x4")["step_ns"]


def test_a_plan_for_another_machine_says_so(called: Call) -> None:
    costs = {name: cost_table_hash(machine(name)) for name in ("cpu", "h200x4")}
    out = called("--machine", "h200x4", costs=costs["cpu"])[1]
    assert 'note: planned for cpu: order and overlap suit that machine; compile with machine="h200x4"' in out
    assert "planned for" not in called("--machine", "h200x4", costs=costs["h200x4"])[1]
    assert "planned for a machine with figures that are not known" in called("--machine", "h200x4", costs="0" * 64)[1]


def test_more_ranks_say_what_stays_as_planned(called: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    (note,) = _figures(called, "--machine", "node8", "--ranks", "1024")["notes"]
    assert "planned for 4 ranks: collectives are timed for groups along dp of 1,024 members instead of 4" in note
    # Its tensors have no dimension that four ranks could split.
    split = replace(SIGNATURE, mesh={"dp": 1}, splits={"weight.momentum": ((("dp", 1),), ())})
    monkeypatch.setattr("tests.artifacts.SIGNATURE", split)
    _, note = _figures(called, "--machine", "node8", "--ranks", "1024")["notes"]
    assert note.startswith("1 of 8 tensors of state are split along dp: more ranks would each hold")
    assert _figures(called, "--machine", "h200x4")["notes"] == []


def test_the_files(called: Call, tmp_path: Path) -> None:
    trace, page = tmp_path / "trace.json", tmp_path / "out.html"
    files = ("--trace", str(trace), "--html", str(page), "--show", "1,3")
    code, _, err = called("--machine", "h200x4", *files, job=_labelled_once(JOB))
    assert (code, err) == (0, "")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {1, 3}
    told = {(event["cat"], event["args"]["asked for by"]) for event in events if event["ph"] == "X"}
    # What has no label was not asked for by whatever else has none.
    assert {asked for kind, asked in told if kind == "all_reduce"} == {RULE, ""}
    assert {asked for kind, asked in told if kind != "all_reduce"} == {""}
    assert "<title>gpt on h200x4</title>" in page.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--machine", "abacus"), "machine 'abacus': is not described"),
        (("--machine", "h200"), "machine h200: has 1 of the 4 ranks"),
        (("--machine", "node8", "--ranks", "2"), "2 ranks: do not fit a job of 4 ranks"),
        (("--machine", "node8", "--ranks", "8", "--axis", "tp"), "axis 'tp': is not in the mesh"),
        (("--machine", "h200x4", "--show", "4"), "does not exist among 4 ranks\n  hint: --show takes 0, 1, 2, 3\n"),
        (
            ("--machine", "node8", "--ranks", "1024", "--show", "5"),
            "equivalent ones are simulated once\n  hint: --show takes 0\n",
        ),
    ],
)
def test_errors_say_what_to_do(called: Call, options: tuple[str, ...], message: str) -> None:
    code, out, err = called(*options)
    assert (code, out) == (1, "")
    assert message in err
    assert "hint: " in err


def test_ranks_that_are_no_numbers(called: Call, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        called("--machine", "h200x4", "--show", "0,x")
    assert "argument --show: '0,x' is not a list of ranks, such as 0,3" in capsys.readouterr().err


def test_a_tuning_table_says_how_long_its_kernels_take(called: Call, tmp_path: Path) -> None:
    job = msgspec.structs.replace(
        JOB,
        kernels={name: msgspec.structs.replace(each, implementation="triton") for name, each in JOB.kernels.items()},
    )
    kernel = job.kernels["up"]
    slow = Choice(kernel.name, types_of(kernel.reads, kernel.writes), "slow", {"slow": 1e6})
    Table({"key": slow}, "NVIDIA H200").write(tmp_path / "h200.tuning.json")
    tables = ((), ("--tuning", str(tmp_path / "h200.tuning.json")))
    without, by_table = (
        json.loads(called("--machine", "h200x4", "--json", *more, job=job)[1])["step_ns"] for more in tables
    )
    assert by_table > 1e9 > without
