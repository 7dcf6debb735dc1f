"""`dmc plan`: what it prints of a plan, and of how two plans differ."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dmc.cli.main import main
from dmc.program import Job, Launch, Range
from dmc.runtime.reports.plan.lines import Wait, lines_of
from tests.artifacts import artifact_of
from tests.hand_made_jobs import COPY, DP, Rank, job_of
from tests.rank_programs import with_programs

Call = Callable[..., tuple[int, str, str]]
PLANNED = Path(__file__).parents[2] / "docs" / "walkthrough" / "04-planned.mlir"


def _rank(rank: int, last: int = 30) -> Rank:
    """A copy in, a launch that needs it, an all-reduce of what that made, and a launch that needs nothing of it."""
    made = Rank(rank).move(64, "input").record(0, COPY)
    made.wait(0).launch(10, "h.0.attn").record(1)
    made.wait(1, DP).reduce(128, 1, label="gradient of h.0.attn.weight")
    return made.launch(last, "h.1.mlp, backward")


JOB = job_of(_rank(0), _rank(1))


@pytest.fixture
def called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Exit code, output and errors of `dmc plan` with some options, of files with these jobs."""

    def call(*options: str, jobs: tuple[Job, ...] = (JOB,)) -> tuple[int, str, str]:
        files: list[str] = []
        for job in jobs:
            path = tmp_path / f"{len(files)}.dmc"
            artifact_of(job).write(path)
            files.append(str(path))
        code = main(["plan", *files, *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def _numbers(out: str) -> list[str]:
    """The first column of a table, below its rule."""
    rows = out.partition("──\n")[2].splitlines()
    return [row.split()[0] for row in rows]


def test_a_line_for_each_command_with_its_events() -> None:
    copy, launch, reduce, last = lines_of(JOB, 0)
    assert (copy.number, copy.lane, copy.kind, copy.label, copy.bytes) == (0, "in", "copy", "input", 64)
    assert copy.signals == (0,)
    assert (launch.kernel, launch.waits, launch.signals) == ("k10", (Wait(0, 0),), (1,))
    assert (reduce.kind, reduce.lane, reduce.bytes, reduce.waits) == ("all_reduce", "dp", 128, (Wait(1, 3),))
    assert (last.number, last.waits, last.signals) == (7, (), ())


def test_events_without_a_command_are_lines_of_their_own() -> None:
    rank = Rank().record(0).launch(10).record(1, COPY).wait(1, DP).record(2, DP).wait(2)
    found = [(line.kind, line.label) for line in lines_of(job_of(rank), 0)]
    assert [kind for kind, _ in found] == ["record", "other", "record", "await", "record", "await"]
    assert found[3] == ("await", "event 1")


def test_the_program_of_a_rank_in_columns(called: Call) -> None:
    code, out, _ = called("--rank", "1")
    assert code == 0
    assert out.startswith("rank 1 of 2: 8 commands on 4 lanes; device 1.07 GB, pinned host 1.07 GB\n")
    assert called("--bytes")[1].splitlines()[0].endswith("device 1,073,741,824 B, pinned host 1,073,741,824 B")
    (line,) = [line for line in out.splitlines() if "gradient of" in line]
    cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
    assert cells == ["6", "dp", "all_reduce", "gradient of h.0.attn.weight", "e1 (3)", "128", "[0, 128)", "[0, 128)"]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (("--lane", "compute"), ["3", "7"]),
        (("--label", "h.*"), ["3", "7"]),
        (("--label", "*h.0.attn*"), ["3", "6"]),
        (("--label", "h.*", "--lane", "dp"), []),
        (("--around", "4"), ["0", "3", "6", "7"]),
    ],
)
def test_options_choose_lines(called: Call, options: tuple[str, ...], numbers: list[str]) -> None:
    assert _numbers(called(*options)[1]) == numbers


def test_around_a_command_of_a_long_program(called: Call) -> None:
    rank = Rank()
    for i in range(40):
        rank.launch(10, f"h.{i}")
    assert _numbers(called("--around", "20", jobs=(job_of(rank),))[1]) == [str(number) for number in range(15, 26)]


def test_equal_plans(called: Call) -> None:
    assert called(jobs=(JOB, JOB))[1] == "the plans are equal\n"


def test_what_stands_in_one_plan_only(called: Call) -> None:
    other = job_of(_rank(0).launch(20, "h.2.mlp"), _rank(1))
    _, out, _ = called(jobs=(JOB, other))
    (row,) = out.partition("──\n")[2].splitlines()
    assert row.split()[:5] == ["+", "8", "compute", "other", "h.2.mlp"]


def test_what_waits_for_something_else(called: Call) -> None:
    first = job_of(Rank().launch(10, "a").record(0).launch(10, "b").wait(0, DP).reduce(64, 1, (0,), "c"))
    second = job_of(Rank().launch(10, "a").launch(10, "b").record(0).wait(0, DP).reduce(64, 1, (0,), "c"))
    _, out, _ = called(jobs=(first, second))
    rows = out.partition("──\n")[2].splitlines()
    assert [row.split()[0] for row in rows] == ["<", ">"]
    assert "e0 (0)" in rows[0]
    assert "e0 (1)" in rows[1]


def test_places_are_counted_unless_they_are_asked_for(called: Call) -> None:
    program = JOB.program(0)
    launch = program.commands[3]
    assert isinstance(launch, Launch)
    elsewhere = msgspec.structs.replace(launch, reads=(Range("device", 256, 4),))
    commands = (*program.commands[:3], elsewhere, *program.commands[4:])
    moved = with_programs(JOB, [msgspec.structs.replace(program, commands=commands)])
    assert called(jobs=(JOB, moved))[1] == ("1 command differing only in offsets (--places shows them)\n")
    assert _numbers(called("--places", jobs=(JOB, moved))[1]) == ["<", ">"]


def test_mlir_in_form_planned(
    called: Call, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["plan", str(PLANNED)]) == 0
    from_file = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PLANNED.read_bytes())))
    assert main(["plan", "-"]) == 0
    assert capsys.readouterr().out == from_file
    assert "gradient of 2.weight" in from_file


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--rank", "2"), "has no rank 2\n  hint: its ranks are 0 to 1"),
        (("--lane", "gpu"), "has no lane 'gpu'\n  hint: its lanes are compute, dp, tp, in"),
        (("--around", "-1"), "--around -1: is before the first command"),
    ],
)
def test_what_is_not_there(called: Call, options: tuple[str, ...], error: str) -> None:
    code, _, printed = called(*options)
    assert code == 1
    assert error in printed


def test_what_is_no_plan(called: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "got 3 files" in called(jobs=(JOB, JOB, JOB))[2]
    text = tmp_path / "a.mlir"
    text.write_text("hello", encoding="utf-8")
    assert main(["plan", str(text)]) == 1
    assert "cannot be read as MLIR" in capsys.readouterr().err
    text.write_text("module {}", encoding="utf-8")
    assert main(["plan", str(text)]) == 1
    assert "contains no dm.program" in capsys.readouterr().err
