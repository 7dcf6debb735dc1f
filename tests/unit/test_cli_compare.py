"""`dmc compare`: predicted beside measured times, as tables and as one trace."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.gpt_job import Shape, gpt_job
from dmc.cli.main import main
from dmc.machine import machine
from dmc.program import Collective
from dmc.program.profile import Profile, Timed
from dmc.simulator import simulate
from dmc.simulator.comparison import compare
from dmc.simulator.simulation import Span
from tests.artifacts import artifact_of

JOB = gpt_job(Shape(layers=2, width=64, tokens=128), 2)
PLAYED = simulate(JOB, machine("h200x2"))


def _is_movement(span: Span) -> bool:
    return isinstance(PLAYED.work(span), Collective)


def _timed(span: Span) -> Timed:
    """Kernels and copies take twice as long as predicted, movements between ranks half as long."""
    factor = 0.5 if _is_movement(span) else 2
    return Timed(span.rank, span.command, span.arrived, span.arrived + factor * (span.end - span.arrived))


def _waiting(span: Span) -> Span:
    """A movement in which its rank waits for another; from then on, it is in the movement."""
    return dataclasses.replace(span, start=(span.start + span.end) / 2 if _is_movement(span) else span.start)


TIMED = tuple(map(_timed, PLAYED.spans))
PROFILE = Profile(JOB.digest(), "NVIDIA H200", 2, (9e6, 8e6), 1.25 * PLAYED.step_ns, TIMED)
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Exit code, output and errors of `dmc compare` with some options."""

    def call(*options: str, profile: Profile = PROFILE) -> tuple[int, str, str]:
        artifact_of(JOB).write(tmp_path / "gpt.dmc")
        profile.write(tmp_path / "run.json")
        code = main(["compare", str(tmp_path / "gpt.dmc"), str(tmp_path / "run.json"), *options])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_each_kernel_is_beside_its_measured_time() -> None:
    found = compare(dataclasses.replace(PLAYED, spans=tuple(map(_waiting, PLAYED.spans))), PROFILE)
    assert found.step.error == pytest.approx(-0.2)
    assert sum(row.count for row in found.commands) == len(PLAYED.spans)
    for row in found.commands:
        assert row.error == pytest.approx(1 if row.by.startswith(("all", "reduce_")) else -0.5), row
    assert [abs(row.off) for row in found.commands] == sorted((abs(row.off) for row in found.commands), reverse=True)
    assert {(lane.name, lane.by) for lane in found.lanes} >= {("compute", "rank 0"), ("compute", "rank 1")}


def test_the_machine_is_that_of_the_profile(called: Call) -> None:
    code, out, _ = called("--rows", "2")
    assert code == 0
    assert "step on h200x2: predicted" in out
    assert "(-20.0%)" in out
    assert "in training, from step to step: 8.500 ms on NVIDIA H200" in out
    assert "others" in out


def test_a_trace_holds_both(called: Call, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert called("--trace", str(path), "--json")[0] == 0
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {
        0: "rank 0, predicted",
        1: "rank 1, predicted",
        2: "rank 0, measured",
        3: "rank 1, measured",
    }
    counts = {pid: sum(event["ph"] == "X" and event["pid"] == pid for event in events) for pid in names}
    assert counts[0] == counts[2] > 0


def test_what_cannot_be_compared_is_refused(called: Call, tmp_path: Path) -> None:
    code, _, told = called(profile=replace(PROFILE, plan="other"))
    assert (code, "is of another plan" in told) == (1, True)
    code, _, told = called(profile=replace(PROFILE, device="Voodoo 2"))
    assert (code, "device 'Voodoo 2': is not described" in told) == (1, True)
    code, _, told = called("--machine", "h200x2", profile=replace(PROFILE, device_ns=None, steps_ns=()))
    assert (code, "has no measured step" in told) == (1, True)
    code, _, told = called(profile=replace(PROFILE, schema=99))
    assert (code, "has schema 99" in told) == (1, True)


def test_without_a_clock_the_fastest_step_counts(called: Call) -> None:
    profile = replace(PROFILE, device="a CPU", device_ns=None, commands=())
    code, out, _ = called("--machine", "h200x2", profile=profile)
    assert code == 0
    assert "measured 8.000 ms" in out
    assert "single commands are timed on a GPU only" in out
