"""Meshes and plans on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dmc
from dmc.cli.main import main
from dmc.cli.meshes import mesh_from, plan_from
from dmc.errors import DmcError, PlanError
from dmc.machine import machine_for


def test_a_mesh_and_a_plan_over_it() -> None:
    mesh = mesh_from("dp=2,tp=4")
    assert mesh == dmc.Mesh(dp=2, tp=4)
    assert plan_from("zero2+megatron_gpt2", mesh) == dmc.plan(mesh).use(dmc.plans.zero2()).use(
        dmc.plans.megatron_gpt2()
    )
    assert plan_from("zero3:tp", mesh) == dmc.plan(mesh).use(dmc.plans.zero3("tp"))


@pytest.mark.parametrize("text", ["dp", "dp=two", "dp=2,dp=4", ""])
def test_no_meshes(text: str) -> None:
    with pytest.raises(PlanError, match="is not an axis with a size"):
        mesh_from(text)


def test_no_plan() -> None:
    with pytest.raises(PlanError, match="'zero4' is not a ready-made plan") as caught:
        plan_from("zero4", dmc.Mesh(dp=2))
    assert "zero2" in caught.value.hint


def test_the_machine_has_as_many_devices_as_there_are_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {ranks: machine_for("h200", ranks) for ranks in (1, 2, 3, 8, 16)}
    assert names == {1: "h200", 2: "h200x2", 3: "h200x4", 8: "h200x8", 16: "node8"}
    assert machine_for("cpu", 4) == "cpu"
    monkeypatch.setitem(machine_for.__globals__, "machine_names", lambda: ("h200", "h200x2"))
    assert machine_for("h200", 3) == "h200"


def test_the_command_line_goes_before_what_the_function_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, Any] = {}

    def compile_artifact(model: Any, *, optimizer: Any, example: Any, observer: Any, **keywords: Any) -> Any:
        given.update(keywords)
        raise DmcError("the step", "is looked at no further")

    def make_step() -> dict[str, Any]:
        return {"model": None, "optimizer": None, "example": (), "mesh": dmc.Mesh(dp=8), "target": "cpu"}

    monkeypatch.setattr(dmc, "compile_artifact", compile_artifact)
    monkeypatch.setattr("dmc.cli.compile.function_of", lambda source: make_step)
    monkeypatch.setattr("dmc.cli.compile.check_keywords", lambda keywords, source: None)
    out = ["-o", str(tmp_path / "step.dmc"), "--quiet"]
    assert main(["compile", "train:make_step", "--mesh", "dp=2", "--plan", "zero2", "--target", "cuda", *out]) == 1
    mesh = dmc.Mesh(dp=2)
    assert given == {"mesh": mesh, "plan": dmc.plan(mesh).use(dmc.plans.zero2()), "target": "cuda"}
    assert "is looked at no further" in capsys.readouterr().err
    monkeypatch.setattr("dmc.cli.compile.function_of", lambda source: lambda: {"model": None})
    assert main(["compile", "train:make_step", "--plan", "zero2", *out]) == 1
    assert "--plan zero2: is given without a mesh" in capsys.readouterr().err
