"""The cheapest paths: costs worked out by hand, and which axes take part."""

from __future__ import annotations

import pytest

from dmc.errors import PlanError
from dmc.mesh import Mesh
from dmc.placement.path import cheapest_path
from dmc.placement.placement import Placement
from dmc.placement.transitions import Tensor

MESH = Mesh(dp=2, tp=4)
T = 8 * 8 * 4
TENSOR = Tensor(MESH, (8, 8), 4)
WHOLE = Placement([[], []])


def _told(source: Placement, target: Placement, tensor: Tensor = TENSOR) -> list[tuple[str, tuple[str, ...], int]]:
    return [(type(step).__name__, step.axes, step.bytes) for step in cheapest_path(source, target, tensor)]


def _sum(*axes: str) -> Placement:
    return Placement([[], []], dict.fromkeys(axes, "sum"))


CASES = {
    # Eight ranks in one group: 2T(n-1), where one axis after the other would be 2T(2·4·2 - 4 - 2) = 20T.
    "all_reduce_over_both": (_sum("dp", "tp"), WHOLE, [("AllReduce", ("dp", "tp"), 14 * T)]),
    "gather_over_both": (Placement([["tp", "dp"], []]), WHOLE, [("AllGather", ("tp", "dp"), 7 * T)]),
    # Two groups of four, each with half of the tensor.
    "gather_the_minor": (
        Placement([["dp", "tp"], []]),
        Placement([["dp"], []]),
        [("AllGather", ("tp",), 2 * 3 * T // 2)],
    ),
    # Six of the eight pieces change places; then four groups of two gather a quarter each.
    "gather_the_major": (
        Placement([["dp", "tp"], []]),
        Placement([["tp"], []]),
        [("Permute", ("dp", "tp"), 6 * T // 8), ("AllGather", ("dp",), 4 * T // 4)],
    ),
    "scatter_beside_a_split": (
        Placement([["dp"], []], {"tp": "sum"}),
        Placement([["dp", "tp"], []]),
        [("ReduceScatter", ("tp",), 2 * 3 * T // 2)],
    ),
    # Slicing over dp first would halve the bytes, but dp has nothing to do with it.
    "bystanders_are_left_alone": (_sum("tp"), WHOLE, [("AllReduce", ("tp",), 2 * 2 * 3 * T)]),
    "all_to_all_in_two_groups": (
        Placement([["tp"], []]),
        Placement([[], ["tp"]]),
        [("AllToAll", ("tp",), 2 * T * 3 // 4)],
    ),
    "slices_are_free": (WHOLE, Placement([["tp"], ["dp"]]), [("AllSlice", ("dp",), 0), ("AllSlice", ("tp",), 0)]),
    # What is split is gathered last, when the maximum is already taken of a quarter. To scatter over dp and to gather
    # over all eight would move as much, in a larger group.
    "reduce_before_gather": (
        Placement([["tp"], []], {"dp": "max"}),
        WHOLE,
        [("AllReduce", ("dp",), 4 * 2 * T // 4), ("AllGather", ("tp",), 2 * 3 * T)],
    ),
    "other_reduction": (
        Placement([[], []], {"dp": "max"}),
        _sum("dp"),
        [("AllReduce", ("dp",), 4 * 2 * T), ("Permute", ("dp",), 0)],
    ),
    "stays_partial": (
        Placement([["tp"], []], {"dp": "max"}),
        Placement([[], []], {"dp": "max"}),
        [("AllGather", ("tp",), 2 * 3 * T)],
    ),
    "stays": (Placement([["tp"], []], {"dp": "max"}), Placement([["tp"], []], {"dp": "max"}), []),
}


@pytest.mark.parametrize("name", CASES)
def test_costs_worked_out_by_hand(name: str) -> None:
    source, target, expected = CASES[name]
    assert _told(source, target) == expected


def test_of_equal_costs_the_fewest_steps() -> None:
    # A reduce_scatter and an all_gather would move as much as one all_reduce.
    assert len(_told(_sum("dp"), WHOLE)) == 1


def test_a_detour_needs_dimensions_that_divide() -> None:
    source, target = Placement([["tp"], []], {"dp": "sum"}), Placement([["dp"], []])
    divides, does_not = Tensor(MESH, (8, 8), 4), Tensor(MESH, (4, 3), 4)
    assert [each[0] for each in _told(source, target, divides)] == ["ReduceScatter", "Permute", "AllGather"]
    assert [each[0] for each in _told(source, target, does_not)] == ["AllReduce", "AllGather", "AllSlice"]


def test_an_axis_of_one_rank_is_not_seen() -> None:
    mesh = Mesh(one=1, dp=2)
    tensor = Tensor(mesh, (4, 4), 4)
    assert _told(Placement([["one", "dp"], []]), Placement([["dp"], ["one"]]), tensor) == []
    assert _told(Placement([[], []], {"one": "sum"}), Placement([["dp", "one"], []]), tensor) == [
        ("AllSlice", ("dp",), 0)
    ]


def test_refuses_to_become_partial_by_other_kinds() -> None:
    for kind in ("mean", "prod", "min", "max"):
        with pytest.raises(PlanError, match="a value can only become partial by sum"):
            cheapest_path(_sum("dp"), Placement([[], []], {"dp": kind}), TENSOR)


@pytest.mark.parametrize("shape", [(6, 8), (8, 6)])
def test_refuses_what_does_not_divide(shape: tuple[int, int]) -> None:
    with pytest.raises(PlanError, match=r"of size 6 into 4 unequal parts"):
        cheapest_path(Placement([["tp"], []]), Placement([[], ["tp"]]), Tensor(MESH, shape, 4))


def test_the_search_is_small() -> None:
    tensor = Tensor(Mesh(x=2, y=2, z=2), (8, 8, 8, 8), 2)
    steps = cheapest_path(Placement([["x", "y", "z"], [], [], []]), Placement([[], ["z"], ["y"], ["x"]]), tensor)
    assert [step.axes for step in steps] == [("z",), ("y",), ("x",)]
