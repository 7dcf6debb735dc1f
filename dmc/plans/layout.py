"""How one tensor lies on the ranks of a mesh, and what one rank holds of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from dmc.mesh import Mesh
from dmc.placement.placement import Placement


@dataclass(frozen=True)
class AxisUse:
    """A mesh axis at work on a tensor, and the rule that put it there (not part of its identity).

    Where it splits a dimension: what earlier uses left of the dimension is seen as [blocks, n, rest], n the size of
    the axis, and the rank with index i along the axis keeps [:, i, :].
    """

    axis: str
    blocks: int = 1
    rule: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.axis if self.blocks == 1 else f"{self.blocks}×{self.axis}"


@dataclass(frozen=True)
class Layout:
    """For each dimension the axes that split it, major first; an axis is used once at most. No use: replicated.

    flat: axes that cut the flattened local tensor further. Each cuts what is left, m elements, into n pieces of
    ⌈m/n⌉, the last ones padded. partial: axes along which every rank holds only a contribution to the sum.
    """

    dims: tuple[tuple[AxisUse, ...], ...]
    flat: tuple[AxisUse, ...] = ()
    partial: tuple[AxisUse, ...] = ()

    @property
    def splits(self) -> Iterator[AxisUse]:
        """All uses that split, by dimension, then flat."""
        return (use for uses in (*self.dims, self.flat) for use in uses)

    @property
    def uses(self) -> Iterator[AxisUse]:
        """All uses."""
        return (use for uses in (*self.dims, self.flat, self.partial) for use in uses)

    def placement(self) -> Placement:
        """Splits by dimension and partial sums as the passes know them. Blocks and `flat` are more than it can say."""
        dims = [[use.axis for use in uses] for uses in self.dims]
        return Placement(dims, {use.axis: "sum" for use in self.partial})

    def with_split(self, dim: int, use: AxisUse) -> Layout:
        """This layout with dimension `dim` split once more."""
        return replace(self, dims=(*self.dims[:dim], (*self.dims[dim], use), *self.dims[dim + 1 :]))

    def __str__(self) -> str:
        dims = ", ".join(" ".join(map(str, uses)) or "-" for uses in self.dims)
        words = [f"[{dims}]" if any(self.dims) else "whole"]
        words += [f"{word} {' '.join(map(str, uses))}" for word, uses in self._extras() if uses]
        return ", ".join(words)

    def _extras(self) -> Iterable[tuple[str, tuple[AxisUse, ...]]]:
        return ("flat", self.flat), ("partial", self.partial)


def replicated(rank: int) -> Layout:
    """The layout of a tensor with `rank` dimensions that every rank holds whole."""
    return Layout(((),) * rank)


def local_shape(layout: Layout, shape: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
    """The shape of what one rank holds of a tensor of `shape`: one dimension, padding included, where it is flat."""
    local = layout.placement().local_shape(mesh, shape)
    if not layout.flat:
        return local
    count = prod(local)
    for use in layout.flat:
        count = -(-count // mesh.axis_size(use.axis))
    return (count,)
