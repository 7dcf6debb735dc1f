"""The steps that lead away from a placement: which there are, and that each moves only what may move."""

from __future__ import annotations

import pytest

from dmc.mesh import Mesh
from dmc.placement.placement import Placement
from dmc.placement.steps import AllGather, AllReduce, AllSlice, AllToAll, Permute, ReduceScatter
from dmc.placement.transitions import Tensor, steps_from
from tests.placements import all_placements

MESH = Mesh(x=2, y=2)
TENSOR = Tensor(MESH, (4, 4), 4)


def test_every_step_of_one_axis() -> None:
    mesh = Mesh(x=2)
    split, other, whole = Placement([["x"], []]), Placement([[], ["x"]]), Placement([[], []])
    partial = Placement([[], []], {"x": "max"})
    expected = {
        split: [AllGather(("x",), split, whole, 64, 0), AllToAll(("x",), split, other, 32, 1, 0)],
        whole: [
            AllSlice(("x",), whole, split, 0, 0),
            AllSlice(("x",), whole, other, 0, 1),
            Permute(("x",), whole, Placement([[], []], {"x": "sum"}), 0, ((0, 0),)),
        ],
        partial: [
            AllReduce(("x",), partial, whole, 128, "max"),
            ReduceScatter(("x",), partial, split, 64, 0, "max"),
            ReduceScatter(("x",), partial, other, 64, 1, "max"),
        ],
    }
    for source, steps in expected.items():
        assert list(steps_from(source, Tensor(mesh, (4, 4), 4), ["x"])) == steps


@pytest.mark.parametrize("moving", [(), ("x",), ("y",), ("x", "y")], ids=str)
def test_only_axes_that_may_move_do(moving: tuple[str, ...]) -> None:
    for source in all_placements(MESH, 2):
        for step in steps_from(source, TENSOR, moving):
            assert set(step.axes) <= set(moving)
            assert step.source == source != step.target
            staying = [axis for axis in MESH.axes if axis not in step.axes]
            assert step.target.keeping(staying.__contains__) == source.keeping(staying.__contains__)


def test_a_minor_axis_keeps_its_major_one_in_place() -> None:
    source = Placement([["x", "y"], []])
    assert list(steps_from(source, TENSOR, ["x"])) == []
    assert {step.target for step in steps_from(source, TENSOR, ["y"])} == {
        Placement([["x"], []]),
        Placement([["x"], ["y"]]),
    }


def test_dimensions_that_do_not_divide_are_not_split() -> None:
    odd = Tensor(MESH, (2, 3), 4)
    assert [step.target.dims for step in steps_from(Placement([[], []]), odd, ["x"])] == [(("x",), ()), ((), ())]
    assert [type(step) for step in steps_from(Placement([["x"], []]), odd, ["x"])] == [AllGather]
    assert [type(step) for step in steps_from(Placement([["y"], []], {"x": "sum"}), odd, ["x"])] == [AllReduce]
