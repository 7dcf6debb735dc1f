"""What each line of a plan changes: whole plans beside each other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.cli.main import main
from dmc.errors import DmcError, PlanError
from dmc.observer import RecordingObserver
from dmc.search import explain, explained
from dmc.simulator import Simulation, simulate


def _step(plan: Any) -> dict[str, Any]:
    model = nn.Sequential(nn.Sequential(nn.Linear(64, 256), nn.GELU()), nn.Linear(256, 64))
    example = torch.randn(64, 64), torch.zeros(64, dtype=torch.int64)
    given = {"loss": nn.functional.cross_entropy, "optimizer": dmc.optim.SGD(lr=0.1), "example": example}
    return {"model": model, "plan": plan, "target": "cuda", **given}


def test_lines_of_movements_and_kernels() -> None:
    plan = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp").bucket(1).overlap(False).keep_apart("0.1")
    observer = RecordingObserver()
    found = explain(**_step(plan), observer=observer)
    assert observer.planned == tuple(line.text for line in found.lines) == tuple(each.name for each in observer.times)
    none, data, alone, in_turn, apart = (line.figures for line in found.lines)
    assert none and data and alone and in_turn and apart
    assert (none.movements, none.moved) == (0, 0)
    assert alone.movements > data.movements > 0
    assert in_turn.ns > alone.ns
    assert (in_turn.movements, in_turn.kernels) == (alone.movements, alone.kernels)
    assert apart.kernels > in_turn.kernels
    head, start, *rows, total = str(found).splitlines()
    assert head.split() == [
        "line",
        "step",
        "device",
        "memory",
        "kernels",
        "read",
        "and",
        "written",
        "movements",
        "moved",
    ]
    assert start.startswith("dmc.plan(dmc.Mesh(dp=2))  ")
    assert [row.split()[0] for row in rows] == [f".{rule}" for rule in plan.rules]
    # The last row is what all lines have changed.
    assert f"+{apart.kernels - none.kernels}" in total.split()
    assert f"{(apart.ns - none.ns) * 1e-6:+.3f} ms" in total


def test_ranks_that_do_the_same_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Simulation] = []

    def watched(*given: Any, **named: Any) -> Simulation:
        seen.append(simulate(*given, **named))
        return seen[-1]

    monkeypatch.setattr(explained, "simulate", watched)
    explain(**_step(dmc.plan(dmc.Mesh(dp=4)).data_parallel("dp")))
    assert [(each.ranks, len(each.programs)) for each in seen] == [(4, 1), (4, 1)]


def test_a_line_that_is_no_plan_alone_belongs_to_what_follows() -> None:
    # All is in f32, until the second line says otherwise of what is around.
    found = explain(**_step(dmc.plan().precision("0.1", "fp32").precision(".0", "bf16")))
    assert [line.figures is None for line in found.lines] == [False, True, False]
    assert found.lines[1].reason.startswith('precision("0.1", "fp32"): has no effect')
    assert "\n  not alone: precision(" in str(found)
    with pytest.raises(PlanError, match="decompose"):
        explain(**_step(dmc.plan().decompose("1")))


@pytest.mark.parametrize("plan", [None, "auto", dmc.plan()])
def test_there_is_nothing_to_explain(plan: Any) -> None:
    with pytest.raises(PlanError, match="has no lines to explain"):
        explain(**_step(plan))


def make() -> dict[str, Any]:
    """What the command line names."""
    return _step(dmc.plan().keep_apart("1"))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--explain", "tests.unit.test_plan_explained:make", "--machine", "h100", "--quiet"]) == 0
    assert '.keep_apart("1")' in capsys.readouterr().out
    assert main(["plan", "--explain", "tests.unit.test_plan_explained:make", "--why", "1"]) == 1
    assert "leave files, --search and --why out" in capsys.readouterr().err


def test_micro_batches_in_a_list_as_of_compile() -> None:
    step = _step(dmc.plan().keep_apart("1"))
    (_, one), (_, listed) = (explain(**step, accumulate=given).lines for given in (2, [2]))
    assert listed == one
    with pytest.raises(DmcError, match="has 2 numbers, and the examples are 1"):
        explain(**step, accumulate=[2, 2])
