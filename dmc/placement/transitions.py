"""Single steps from one placement to another: the op of each, and the bytes that it moves.

Costs are bytes over all ranks, as in table 2 of OneFlow (Yuan et al. 2021, arXiv:2110.15032). For a tensor of T bytes
on a group of n ranks:

| from, to      | S(i)         | S(j)                    | B                   | P                   |
|---------------|--------------|-------------------------|---------------------|---------------------|
| S(i), split   | nothing, 0   | all_to_all, T(n-1)/n    | all_gather, T(n-1)  | by way of B, T(n-1) |
| B, replicated | all_slice, 0 | all_slice, 0            | nothing, 0          | permute, 0          |
| P, partial    | reduce_scatter, T(n-1) | reduce_scatter, T(n-1) | all_reduce, 2T(n-1) | nothing, 0 |

S to P is not a step here: OneFlow pads with zeros, for which `dm` has no op, because dmc never needs it.

A dimension that is split within blocks is treated as two, the blocks and the indices within them. A step may take
several axes at once, as one group. The number of groups of a mesh is that of ranks divided by n; each holds its own
tensor, of which T is the size. Axes that split a dimension are taken from its minor end and added at its minor end, so
that a group's pieces are neighbours in the order of the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import prod

from dmc.mesh import Mesh
from dmc.placement.placement import Placement
from dmc.placement.steps import AllGather, AllReduce, AllSlice, AllToAll, Permute, ReduceScatter, Step


@dataclass(frozen=True)
class Tensor:
    """A global tensor on a mesh, as steps need it."""

    mesh: Mesh
    shape: tuple[int, ...]
    element_bytes: int

    def local_bytes(self, placement: Placement) -> int:
        """The size of one rank's part. Raises PlanError if the shape is not divisible."""
        return prod(placement.local_shape(self.mesh, self.shape)) * self.element_bytes


def steps_from(
    source: Placement, tensor: Tensor, moving: Sequence[str], goal: Placement | None = None
) -> Iterator[Step]:
    """Every step from `source` that changes only axes among `moving`, in a fixed order.

    A new split is within blocks if the split of the same axes and dimension in `goal` is.
    """
    goal = goal or source
    ordered = [axis for axis in tensor.mesh.axes if axis in moving]
    replicated = [axis for axis in ordered if axis not in source.axes]
    yield from _from_split(source, tensor, ordered, goal)
    yield from _from_partial(source, tensor, ordered, goal)
    for axes in _orders(replicated):
        for dim, blocks in _divisible(source, tensor, axes, goal):
            yield AllSlice(axes, source, source.split(dim, axes, blocks), 0, dim, blocks=_named(dim, blocks))
    for axes in _choices(replicated):
        # The first rank keeps the value and the others, which are not targets, get zeros.
        yield Permute(axes, source, source.summed(axes), 0, ((0, 0),))


def _from_split(source: Placement, tensor: Tensor, moving: Sequence[str], goal: Placement) -> Iterator[Step]:
    ranks, size = tensor.mesh.size, tensor.local_bytes(source)
    for dim, axes in _minor_ends(source, moving):
        n, joined = tensor.mesh.group_size(axes), source.without(axes)
        within = _named(dim, source.blocks_of(axes[0]))
        yield AllGather(axes, source, joined, ranks * (n - 1) * size, dim, blocks=within)
        for other, blocks in _divisible(source, tensor, axes, goal):
            if other != dim:
                moved, both = ranks * (n - 1) * size // n, (*within, *_named(other, blocks))
                target = joined.split(other, axes, blocks)
                yield AllToAll(axes, source, target, moved, split_dim=other, concat_dim=dim, blocks=both)
        for order in permutations(axes):
            if order != axes:
                yield _reorder(source, tensor, dim, axes, order)


def _reorder(source: Placement, tensor: Tensor, dim: int, axes: tuple[str, ...], order: tuple[str, ...]) -> Step:
    """Reorders the minor axes `axes` of a dimension, so that pieces change ranks."""
    mesh = tensor.mesh
    places = list(product(*(range(mesh.axis_size(axis)) for axis in axes)))
    by_piece = sorted(range(len(places)), key=lambda rank: [places[rank][axes.index(axis)] for axis in order])
    pairs = tuple(enumerate(by_piece))
    moving = sum(here != there for here, there in pairs)
    moved = mesh.size // len(places) * moving * tensor.local_bytes(source)
    target = source.without(axes).split(dim, order, source.blocks_of(axes[0]))
    return Permute(axes, source, target, moved, pairs)


def _from_partial(source: Placement, tensor: Tensor, moving: Sequence[str], goal: Placement) -> Iterator[Step]:
    size = tensor.local_bytes(source)
    for kind in sorted({kind for _, kind in source.partial}):
        partial = [axis for axis in moving if source.kind(axis) == kind]
        for axes in _choices(partial):
            moved = 2 * _reduced_bytes(tensor, axes, size)
            yield AllReduce(axes, source, source.without(axes), moved, kind)
        for axes in _orders(partial):
            reduced, moved = source.without(axes), _reduced_bytes(tensor, axes, size)
            for dim, blocks in _divisible(source, tensor, axes, goal):
                target = reduced.split(dim, axes, blocks)
                yield ReduceScatter(axes, source, target, moved, dim, kind, blocks=_named(dim, blocks))


def _reduced_bytes(tensor: Tensor, axes: Sequence[str], size: int) -> int:
    """T(n-1) per group, where each rank holds T = `size` bytes."""
    n = tensor.mesh.group_size(axes)
    return tensor.mesh.size // n * (n - 1) * size


def _minor_ends(placement: Placement, moving: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """A dimension and its minor axes, in the same blocks, for each choice within `moving`."""
    for dim, axes in enumerate(placement.dims):
        for start in range(len(axes) - 1, -1, -1):
            if axes[start] not in moving or placement.blocks_of(axes[start]) != placement.blocks_of(axes[-1]):
                break
            yield dim, axes[start:]


def _divisible(placement: Placement, tensor: Tensor, axes: Sequence[str], goal: Placement) -> Iterator[tuple[int, int]]:
    """The dimensions whose parts can be split further over `axes`, and the number of blocks."""
    n = tensor.mesh.group_size(axes)
    for dim, size in enumerate(placement.local_shape(tensor.mesh, tensor.shape)):
        counts = {goal.blocks_of(axis) if axis in goal.dims[dim] else 1 for axis in axes}
        if len(counts) == 1 and size % (n * min(counts)) == 0:
            yield dim, counts.pop()


def _named(dim: int, blocks: int) -> tuple[tuple[int, int], ...]:
    return ((dim, blocks),) if blocks > 1 else ()


def _choices(axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every non-empty selection of `axes`, in their order."""
    for count in range(1, len(axes) + 1):
        yield from combinations(axes, count)


def _orders(axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every non-empty selection of `axes`, in every order."""
    for count in range(1, len(axes) + 1):
        yield from permutations(axes, count)
