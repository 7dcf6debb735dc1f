"""What is seen of a pipeline: actions in plan, timeline and trace, messages in the ledger, memory by stage."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest

import dmc
from dmc.cli.main import main
from dmc.machine import machine
from dmc.program import Collective, Job, Launch
from dmc.program.describe import action_of
from dmc.program.sizes import element_bytes, size_text
from dmc.runtime import Step
from dmc.schedules import schedule
from dmc.simulator import simulate
from dmc.simulator.summary import summarise
from dmc.simulator.timeline_data import timeline_data
from dmc.simulator.trace import trace
from tests.pipelined import MICRO, ROWS, WIDTH, compiled, layers, two_stages

SCHEDULE = "zb-h1"
# Of a micro-batch's activation in f32, and of its gradient.
MESSAGE = ROWS // MICRO * WIDTH * 4


@pytest.fixture(scope="module")
def step() -> Step:
    return compiled(layers(), plan=two_stages(schedule=SCHEDULE), verify=False)


def _actions(job: Job, rank: int) -> list[str]:
    """Those of a rank's kernels, in order, each once in a row."""
    launches = (each for each in job.program(rank).commands if isinstance(each, Launch))
    return [action for action, _ in groupby(filter(None, map(action_of, launches)))]


@pytest.mark.parametrize("rank", [0, 1])
def test_kernels_have_their_actions_in_the_order_of_the_schedule(step: Step, rank: int) -> None:
    # Nothing is computed for the gradient of inputs in the first stage.
    asked = [str(each) for each in schedule(SCHEDULE, 2, MICRO).row(rank) if (each.stage, each.kind) != (0, "I")]
    assert _actions(step.plan().job, rank) == asked


def test_what_belongs_to_no_micro_batch_has_no_action(step: Step) -> None:
    for program in step.plan().job.programs:
        launches = [each for each in program.commands if isinstance(each, Launch)]
        updates = [each for each in launches if each.label.endswith("update")]
        assert updates
        assert not any(map(action_of, updates))


def test_both_ends_of_a_message_name_the_action_that_computes_it(step: Step) -> None:
    messages: dict[int, list[Collective]] = {}
    for program in step.plan().job.programs:
        for command in program.commands:
            if isinstance(command, Collective):
                messages.setdefault(command.instance, []).append(command)
    named = [{each.action for each in ends} for ends in messages.values()]
    assert all(len(actions) == 1 for actions in named)
    activations = [ends for ends in messages.values() if ends[0].count == MESSAGE // 4]
    assert sorted(ends[0].action for ends in activations) == ["0F0", "0F1", "1I0", "1I1"]


def test_the_plan_shows_them(step: Step) -> None:
    assert " 0F0 0 " in str(step.plan())


def test_timeline_and_trace_begin_names_with_them(step: Step) -> None:
    simulation = simulate(step.plan().job, machine("h100x2"))
    data = json.loads(timeline_data(simulation, summarise(simulation), [0, 1], {}))
    titles = {data["strings"][number] for number in data["spans"]["title"]}
    events = json.loads(trace(simulation))["traceEvents"]
    for names in (titles, {each["name"] for each in events}):
        assert "1F1 3" in names
    assert any("after 0F0 0 on lane compute" in text for text in data["strings"])


@pytest.mark.parametrize("copies", [1, 2], ids=["pp", "dp × pp"])
def test_the_ledger_lists_messages(copies: int) -> None:
    plan = two_stages() if copies == 1 else dmc.plan(dmc.Mesh(dp=2, pp=2)).use(dmc.plans.data_parallel("dp"))
    if copies > 1:
        plan = plan.pipeline("pp", cut=[".3"], microbatches=MICRO)
    step = compiled(layers(), plan=plan, verify=False)
    ledger = step.ledger()
    sent = [each for each in ledger.entries if each.kind == "send"]
    assert {(each.axes, each.group, each.why) for each in sent} == {(("pp",), 2, "pipeline")}
    # Forward and backward, for each micro-batch; replicas send their rows.
    large = [each for each in sent if each.bytes == MESSAGE]
    assert len(large) == 2 * MICRO
    assert len(ledger.ranks) == 2 * copies
    assert sum(ledger.ranks) == ledger.bytes
    if copies == 1:
        # Nothing else is sent.
        programs = step.plan().job.programs
        sent_by = [[each for each in program.commands if isinstance(each, Collective)] for program in programs]
        wanted = [sum(each.count * element_bytes(each.dtype) for each in own if each.kind == "send") for own in sent_by]
        assert list(ledger.ranks) == wanted


def test_simulate_prints_memory_of_stages(step: Step, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step.save(tmp_path / "step.dmc")
    assert main(["simulate", str(tmp_path / "step.dmc"), "--machine", "h100x2"]) == 0
    table = capsys.readouterr().out.split("\nStages\n")[1].split("\n\n")[0]
    rows = [line.split() for line in table.splitlines()]
    found = {row[0]: " ".join(row[-2:]) for row in rows if row and row[0].isdecimal()}
    memory = summarise(simulate(step.plan().job, machine("h100x2"))).memory
    assert found == {str(each.rank): size_text(each.peak) for each in memory}


def test_plan_prints_the_schedule(step: Step, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step.save(tmp_path / "step.dmc")
    assert main(["plan", str(tmp_path / "step.dmc"), "--schedule"]) == 0
    assert capsys.readouterr().out.splitlines() == ["rank 0  0F0 0F1 0W0 0W1", "rank 1  1F0 1I0 1F1 1I1 1W0 1W1"]


def test_a_step_without_stages_has_no_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled(layers()).save(tmp_path / "step.dmc")
    assert main(["plan", str(tmp_path / "step.dmc"), "--schedule"]) == 1
    assert "has no stages\n  hint: compile it under a plan with .pipeline" in capsys.readouterr().err


def test_a_schedule_is_of_all_that_ranks_do(step: Step, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step.save(tmp_path / "step.dmc")
    assert main(["plan", str(tmp_path / "step.dmc"), "--schedule", "--lane", "pp"]) == 1
    assert "--schedule: shows the actions of all ranks" in capsys.readouterr().err
