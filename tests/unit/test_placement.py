"""Placements: shapes of parts and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.placements import mesh_of, placement_of, sharding_of
from dmc.errors import PlanError
from dmc.mesh import Mesh
from dmc.placement.placement import Placement, replicated

MESH = Mesh(dp=2, tp=3)


def test_parts_and_whole() -> None:
    placement = Placement([["tp", "dp"], []])
    assert placement.parts(MESH) == (6, 1)
    assert placement.local_shape(MESH, (12, 5)) == (2, 5)
    assert placement.whole_shape(MESH, (2, 5)) == (12, 5)


def test_placements_are_values() -> None:
    assert Placement([["dp"]], {"tp": "sum"}) == Placement((("dp",),), {"tp": "sum"})
    assert Placement([[]], {"tp": "sum", "dp": "sum"}) == Placement([[]], {"dp": "sum", "tp": "sum"})
    assert len({Placement([["dp", "tp"]]), Placement([["tp", "dp"]])}) == 2
    assert replicated(2) == Placement([[], []])
    assert repr(Placement([["dp", "tp"], []], {"pp": "max"})) == "[dp·tp, -], max over pp"


def test_changes_give_new_placements() -> None:
    placement = Placement([["dp"], []], {"tp": "mean"})
    assert placement.kind("tp") == "mean"
    assert placement.kind("dp") is None
    assert placement.without(["tp"]) == Placement([["dp"], []])
    assert placement.without(["dp"]) == Placement([[], []], {"tp": "mean"})
    assert placement.without(["tp"]).split(0, ["tp"]) == Placement([["dp", "tp"], []])
    assert placement.without(["dp"]).summed(["dp"]) == Placement([[], []], {"dp": "sum", "tp": "mean"})


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((9, 4), "splits dimension 0 of size 9 into 6 unequal parts\n  hint: make it a multiple of 6"),
        ((6,), "shards 2 dimensions, but the tensor has 1"),
    ],
)
def test_refuses_a_shape(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        Placement([["dp", "tp"], []]).local_shape(MESH, shape)
    assert caught.value.place == "[dp·tp, -]"


def test_refuses_an_axis_twice() -> None:
    for dims, partial in (([["dp"], ["dp"]], {}), ([["dp", "dp"]], {}), ([["dp"]], {"dp": "sum"})):
        with pytest.raises(PlanError, match="uses axis 'dp' twice"):
            Placement(dims, partial)


@pytest.mark.parametrize("placement", [Placement([["pp"]]), Placement([[]], {"pp": "sum"})], ids=repr)
def test_refuses_an_axis_of_another_mesh(placement: Placement) -> None:
    with pytest.raises(PlanError, match="axis 'pp': does not exist in Mesh"):
        placement.local_shape(MESH, (6,))


@given(st.lists(st.integers(0, 40), min_size=2, max_size=2), st.sampled_from([(), ("dp",), ("tp",), ("dp", "tp")]))
def test_a_shape_divides_or_is_refused(shape: list[int], axes: tuple[str, ...]) -> None:
    placement = Placement([[], axes])
    if shape[1] % MESH.group_size(axes):
        with pytest.raises(PlanError, match="splits dimension 1 "):
            placement.local_shape(MESH, shape)
    else:
        local = placement.local_shape(MESH, shape)
        assert local == (shape[0], shape[1] // MESH.group_size(axes))
        assert placement.whole_shape(MESH, local) == tuple(shape)


def test_shardings_state_placements(context: Any) -> None:
    placement = Placement([["dp"], []], {"tp": "sum"})
    sharding = sharding_of(placement, "mesh")
    assert sharding == dm.sharding("mesh", [["dp"], []], {"tp": "sum"})
    assert placement_of(sharding) == placement


def test_mesh_of_its_op(context: Any) -> None:
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        op = dm.mesh(sym_name="m", axes=["dp", "tp"], sizes=[2, 4], device="cuda", links=["network", "nvlink"])
    assert mesh_of(op) == Mesh(dp=2, tp=4, links={"dp": "network", "tp": "nvlink"})


def test_blocks_are_split_each() -> None:
    fused = Placement([[], ["tp"]], blocks={"tp": 3})
    assert repr(fused) == "[-, 3*tp]"
    assert fused.local_shape(MESH, (2, 18)) == (2, 18 // MESH.axis_size("tp"))
    assert fused.without(["tp"]) == Placement([[], []])
    assert Placement([[], ["tp"]], blocks={"tp": 1}) == Placement([[], ["tp"]]) != fused
    with pytest.raises(PlanError, match="into 3 unequal parts within each of 3 blocks"):
        fused.local_shape(MESH, (2, 6))
    with pytest.raises(PlanError, match="has 2 blocks along 'dp'"):
        Placement([[], ["tp"]], blocks={"dp": 2})
