"""Meshes: ranks, coordinates and groups."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc import dialect
from dmc._mlir import ir
from dmc.errors import PlanError
from dmc.mesh import LINKS, Mesh

MESH = Mesh(dp=2, tp=3)


def _mesh(sizes: list[int]) -> Mesh:
    axes: dict[str, Any] = {f"a{index}": size for index, size in enumerate(sizes)}
    return Mesh(**axes)


def test_axes_are_major_first() -> None:
    assert (MESH.axes, MESH.sizes, MESH.size, list(MESH.ranks)) == (("dp", "tp"), (2, 3), 6, [0, 1, 2, 3, 4, 5])
    assert MESH.coordinates(4) == {"dp": 1, "tp": 1}
    assert MESH.rank_at({"tp": 1, "dp": 1}) == 4
    assert repr(MESH) == "Mesh(dp=2, tp=3)"


def test_meshes_are_values() -> None:
    assert Mesh(dp=2, tp=3) == MESH
    assert len({MESH, Mesh(dp=2, tp=3), Mesh(tp=3, dp=2)}) == 2


def test_groups_along_axes() -> None:
    assert MESH.groups(("tp",)) == ((0, 1, 2), (3, 4, 5))
    assert MESH.groups(("dp",)) == ((0, 3), (1, 4), (2, 5))
    assert MESH.groups(("tp", "dp")) == ((0, 3, 1, 4, 2, 5),)
    assert MESH.groups(()) == tuple((rank,) for rank in MESH.ranks)
    assert MESH.group(4, ("tp",)) == (3, 4, 5)
    assert MESH.group_size(("tp", "dp")) == 6


def test_links_are_optional() -> None:
    assert Mesh(dp=2, tp=2, links={"tp": "nvlink"}).links == (None, "nvlink")


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({}, r"mesh: has no axis\n  hint: .*Mesh\(dp=1\)"),
        ({"dp": 0}, r"mesh: axis 'dp' has size 0"),
        ({"dp": 2.0}, r"axis 'dp' has size 2\.0"),
        ({"dp": True}, r"axis 'dp' has size True"),
        ({"d p": 2}, r"axis name 'd p' is not an identifier"),
        ({"dp": 2, "links": {"tp": "nvlink"}}, r"a link is given for axis 'tp'\n  hint: the axes are dp"),
        ({"dp": 2, "links": {"dp": "rope"}}, r"axis 'dp' has link 'rope'\n  hint: use one of memory, nvlink"),
    ],
)
def test_a_bad_mesh_is_refused(axes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Mesh(**axes)


def test_unknown_axes_and_ranks_are_refused() -> None:
    with pytest.raises(PlanError, match=r"axis 'pp': does not exist in Mesh\(dp=2, tp=3\)\n  hint: use one of dp, tp"):
        MESH.groups(("pp",))
    with pytest.raises(PlanError, match=r"rank 6: does not exist in Mesh\(dp=2, tp=3\)\n  hint: ranks are 0 to 5"):
        MESH.coordinates(6)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_groups_partition_the_ranks(sizes: list[int], data: st.DataObject) -> None:
    mesh = _mesh(sizes)
    axes = data.draw(st.permutations(mesh.axes).map(lambda order: order[: len(order) // 2 + 1]))
    assert [mesh.rank_at(mesh.coordinates(rank)) for rank in mesh.ranks] == list(mesh.ranks)
    groups = mesh.groups(axes)
    assert sorted(rank for group in groups for rank in group) == list(mesh.ranks)
    for group in groups:
        assert [mesh.index_in_group(rank, axes) for rank in group] == list(range(mesh.group_size(axes)))
        fixed = [{axis: mesh.coordinates(rank)[axis] for axis in mesh.axes if axis not in axes} for rank in group]
        assert all(each == fixed[0] for each in fixed)


def test_a_mesh_becomes_the_op() -> None:
    """The fields are those of `dm.mesh`, and the links exist there."""
    mesh = _mesh([2] * len(LINKS))
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            op = dialect.mesh(sym_name="mesh", axes=mesh.axes, sizes=mesh.sizes, device="cpu", links=LINKS)
        assert tuple(op.sizes) == mesh.sizes
        assert tuple(axis.value for axis in op.axes) == mesh.axes


def test_links_is_no_axis() -> None:
    axes: Any = {"dp": 2, "links": 2}
    with pytest.raises(PlanError, match="axis name 'links' is reserved"):
        Mesh(**axes)
