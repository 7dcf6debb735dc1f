"""Every change of placement gives the right values on every rank, and sends exactly the bytes that it should cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dmc import dialect as dm
from dmc.dtypes import numpy_type
from dmc.errors import PlanError
from dmc.interpreter import spmd
from dmc.mesh import Mesh
from dmc.passes.placed.lower_reshard import LowerReshard
from dmc.placement.path import cheapest_path
from dmc.placement.placement import Placement
from dmc.placement.transitions import Tensor
from tests.placements import all_placements, gathered, reshards, spread

Pair = tuple[Placement, Placement]
# Unequal axes tell a permutation from its inverse.
MESHES = (Mesh(x=2), Mesh(x=4), Mesh(x=2, y=2), Mesh(x=2, y=3))
BYTES = {"f32": 4, "bf16": 2, "i32": 4}


def _check(mesh: Mesh, shape: Sequence[int], pairs: Sequence[Pair], element: str = "f32") -> list[int]:
    """Lowers and runs these changes of placement, compares values and bytes, and gives the bytes of each."""
    module = reshards(mesh, shape, pairs, element)
    LowerReshard().run(module)
    module.operation.verify()
    dm.verify_symbols(module)
    tensor = Tensor(mesh, tuple(shape), BYTES[element])
    sent: list[int] = []
    for i, (source, target) in enumerate(pairs):
        parts = spread(source, mesh, shape, seed=i, dtype=numpy_type(element))
        run = spmd.run(module, f"f{i}", [[part] for part in parts])
        expected = gathered(source, mesh, shape, parts)
        actual = gathered(target, mesh, shape, [part for (part,) in run.results])
        np.testing.assert_array_equal(actual, expected, f"{source} to {target}")
        assert run.bytes == sum(step.bytes for step in cheapest_path(source, target, tensor)), f"{source} to {target}"
        sent.append(run.bytes)
    return sent


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_every_pair(context: Any, mesh: Mesh, rank: int) -> None:
    shape = (12, 12)[:rank]
    placements = list(all_placements(mesh, rank))
    _check(mesh, shape, [(source, target) for source in placements for target in placements])


def test_every_pair_with_means(context: Any) -> None:
    # Of two ranks, so that a mean of small integers is exact.
    mesh = Mesh(x=2, y=2)
    placements = list(all_placements(mesh, 1, ["sum", "mean"]))
    _check(mesh, (8,), [(a, b) for a in placements for b in placements if _is_legal(a, b)])


@pytest.mark.parametrize("n", [2, 3, 4])
def test_one_axis_costs_what_the_table_says(context: Any, n: int) -> None:
    shape, size = (2 * n, n), 2 * n * n * 4
    rows, columns = Placement([["x"], []]), Placement([[], ["x"]])
    whole, partial = Placement([[], []]), Placement([[], []], {"x": "sum"})
    table = {
        (rows, rows): 0,
        (rows, columns): size * (n - 1) // n,
        (rows, whole): size * (n - 1),
        (rows, partial): size * (n - 1),  # by way of the whole
        (whole, rows): 0,
        (whole, whole): 0,
        (whole, partial): 0,
        (partial, columns): size * (n - 1),
        (partial, whole): 2 * size * (n - 1),
        (partial, partial): 0,
    }
    assert _check(Mesh(x=n), shape, list(table)) == list(table.values())


def _meshes() -> st.SearchStrategy[Mesh]:
    sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda each: prod(each) <= 12)
    return sizes.map(lambda each: _mesh(*each))


def _mesh(x: int, y: int = 1, z: int = 1) -> Mesh:
    return Mesh(x=x, y=y, z=z)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Mesh, tuple[int, ...], Pair]:
    """A mesh, a shape, and placements of it which may or may not divide it."""
    mesh = draw(_meshes())
    rank = draw(st.integers(0, 3))
    kinds = ["sum", draw(st.sampled_from(["min", "max", "prod"]))]
    placements = [placement for placement in all_placements(mesh, rank, kinds) if _commutes(placement)]
    source, target = (_in_blocks(draw, draw(st.sampled_from(placements))) for _ in range(2))
    pair = source, target
    factors = [draw(st.sampled_from([1, prod(mesh.sizes), 2 * prod(mesh.sizes)])) for _ in range(rank)]
    shape = tuple(factor * draw(st.integers(0, 3)) for factor in factors)
    return mesh, shape, pair


def _in_blocks(draw: st.DrawFn, placement: Placement) -> Placement:
    """The same, with some of its splits within two blocks."""
    blocks = {axis: draw(st.sampled_from([1, 1, 2])) for axes in placement.dims for axis in axes}
    return Placement(placement.dims, dict(placement.partial), blocks)


def _divides(placement: Placement, mesh: Mesh, shape: tuple[int, ...]) -> bool:
    for size, axes in zip(shape, placement.dims, strict=True):
        left = size
        for axis in axes:
            if left % (placement.blocks_of(axis) * mesh.axis_size(axis)):
                return False
            left //= mesh.axis_size(axis)
    return True


def _commutes(placement: Placement) -> bool:
    return len({kind for _, kind in placement.partial}) < 2


def _is_legal(source: Placement, target: Placement) -> bool:
    return all(kind == "sum" or source.kind(axis) == kind for axis, kind in target.partial)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=_cases(), element=st.sampled_from(sorted(BYTES)))
def test_any_shape(context: Any, case: tuple[Mesh, tuple[int, ...], Pair], element: str) -> None:
    mesh, shape, (source, target) = case
    if _divides(source, mesh, shape) and _divides(target, mesh, shape) and _is_legal(source, target):
        _check(mesh, shape, [(source, target)], element)
        return
    with pytest.raises(PlanError, match=r"into \d+ unequal parts|can only become partial by sum"):
        cheapest_path(source, target, Tensor(mesh, shape, BYTES[element]))
