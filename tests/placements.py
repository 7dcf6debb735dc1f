"""For tests of placements: all placements of a tensor, tensors spread by hand, and programs of reshards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc._mlir import ir
from dmc.dialect.placements import sharding_of
from dmc.mesh import Mesh
from dmc.placement.placement import Placement, replicated

Array = NDArray[Any]
REDUCE = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "min": np.min, "max": np.max}


def all_placements(mesh: Mesh, rank: int, kinds: Sequence[str] = ("sum",)) -> Iterator[Placement]:
    """Every placement of a tensor with `rank` dimensions: each axis splits a dimension, is partial, or replicates."""
    for roles in product((None, *kinds, *range(rank)), repeat=len(mesh.axes)):
        partial = {axis: role for axis, role in zip(mesh.axes, roles, strict=True) if isinstance(role, str)}
        splits = [[axis for axis, role in zip(mesh.axes, roles, strict=True) if role == dim] for dim in range(rank)]
        for dims in product(*(permutations(axes) for axes in splits)):
            yield Placement(dims, partial)


def random_placement(choose: Callable[[int], int], mesh: Mesh, shape: Sequence[int]) -> Placement:
    """A placement that divides a tensor of this shape; `choose(n)` gives numbers in 0 … n-1."""
    placement = replicated(len(shape))
    axes = list(mesh.axes)
    while axes:
        axis, dim, blocks = axes.pop(choose(len(axes))), choose(len(shape) + 1), (1, 1, 1, 2)[choose(4)]
        left = placement.local_shape(mesh, shape)
        # No dimension: the axis replicates.
        if dim < len(shape) and left[dim] % (mesh.axis_size(axis) * blocks) == 0:
            placement = placement.split(dim, [axis], blocks)
    return placement


def spread(placement: Placement, mesh: Mesh, shape: Sequence[int], seed: int, dtype: Any) -> list[Array]:
    """A tensor of small random integers, as the parts that the ranks hold; contributions differ where it is partial."""
    sizes = [mesh.axis_size(axis) for axis, _ in placement.partial]
    contributions = np.random.default_rng(seed).integers(-2, 3, size=(*sizes, *shape)).astype(dtype)
    return [contributions[_where(placement, mesh, rank, shape)] for rank in mesh.ranks]


def part_of(whole: Array, placement: Placement, mesh: Mesh, rank: int) -> Array:
    """What `rank` holds of `whole`, which is partial over no axis."""
    return whole[_where(placement, mesh, rank, whole.shape)]


def gathered(placement: Placement, mesh: Mesh, shape: Sequence[int], parts: Sequence[Array]) -> Array:
    """The tensor whose parts these are, in float64; asserts that ranks that should hold the same do."""
    sizes = [mesh.axis_size(axis) for axis, _ in placement.partial]
    contributions, is_there = np.empty((*sizes, *shape)), np.zeros((*sizes, *shape), bool)
    for rank, part in zip(mesh.ranks, parts, strict=True):
        where = _where(placement, mesh, rank, shape)
        if is_there[where].any():
            np.testing.assert_array_equal(contributions[where], part.astype(np.float64), "replicas differ")
        contributions[where], is_there[where] = part, True
    assert is_there.all()
    for _, kind in placement.partial:
        contributions = REDUCE[kind](contributions, axis=0)
    return np.asarray(contributions)


def _where(placement: Placement, mesh: Mesh, rank: int, shape: Sequence[int]) -> tuple[Any, ...]:
    """Where a rank's part lies: its coordinates along the partial axes, then its indices of each dimension."""
    coordinates = mesh.coordinates(rank)
    indices: list[Array] = []
    for size, axes in zip(shape, placement.dims, strict=True):
        left = np.arange(size)
        for axis in axes:
            left = left.reshape(placement.blocks_of(axis), mesh.axis_size(axis), -1)[:, coordinates[axis]].reshape(-1)
        indices.append(left)
    return (*(coordinates[axis] for axis, _ in placement.partial), *np.ix_(*indices))


def reshards(mesh: Mesh, shape: Sequence[int], paths: Sequence[Sequence[Placement]], element: str = "f32") -> ir.Module:
    """A module whose function `f<i>` takes its argument from placement to placement, as `paths[i]` says."""
    sizes, links = ", ".join(map(str, mesh.sizes)), ", ".join(['#dm.link<"memory">'] * len(mesh.axes))
    axes = ", ".join(f'"{axis}"' for axis in mesh.axes)
    lines = [
        f'"dm.mesh"() {{sym_name = "mesh", axes = [{axes}], sizes = array<i64: {sizes}>, '
        f'device = #dm.device<"cpu">, links = [{links}]}} : () -> ()'
    ]
    for i, path in enumerate(paths):
        types = [_type(placement.local_shape(mesh, shape), element) for placement in path]
        shardings = [sharding_of(placement, "mesh") for placement in path]
        lines += [f"func.func @f{i}(%v0: {types[0]}) -> {types[-1]} {{"]
        for j in range(1, len(path)):
            attributes = f"source = {shardings[j - 1]}, target = {shardings[j]}"
            lines += [f'  %v{j} = "dm.reshard"(%v{j - 1}) {{{attributes}}} : ({types[j - 1]}) -> {types[j]}']
        lines += [f"  return %v{len(path) - 1} : {types[-1]}", "}"]
    return ir.Module.parse("\n".join(lines))


def _type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"
