"""Meshes and plans on the command line."""

from __future__ import annotations

import pytest

import dmc
from dmc.cli.meshes import mesh_from, plan_from
from dmc.errors import PlanError
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
    with pytest.raises(PlanError, match="is no axis with a size"):
        mesh_from(text)


def test_no_plan() -> None:
    with pytest.raises(PlanError, match="'zero4' is no ready plan") as caught:
        plan_from("zero4", dmc.Mesh(dp=2))
    assert "zero2" in caught.value.hint


def test_the_machine_has_as_many_devices_as_there_are_ranks() -> None:
    names = {ranks: machine_for("h200", ranks) for ranks in (1, 2, 3, 8, 16)}
    assert names == {1: "h200", 2: "h200x2", 3: "h200x4", 8: "h200x8", 16: "node8"}
    assert machine_for("cpu", 4) == "cpu"
