"""How one tensor is placed on the ranks of a mesh, and what one rank holds of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dmc.placement.placement import Placement


@dataclass(frozen=True)
class AxisUse:
    """The use of a mesh axis by a tensor, and the rule behind it (not part of its identity).

    Where it splits a dimension, what earlier uses left of the dimension is viewed as [blocks, n, rest], with n the size
    of the axis, and the rank with index i along the axis keeps [:, i, :].
    """

    axis: str
    blocks: int = 1
    rule: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.axis if self.blocks == 1 else f"{self.blocks}×{self.axis}"


@dataclass(frozen=True)
class Layout:
    """For each dimension the axes that split it, major first; an axis is used at most once. No use means replicated.

    partial: axes along which every rank holds only a contribution to the sum.
    """

    dims: tuple[tuple[AxisUse, ...], ...]
    partial: tuple[AxisUse, ...] = ()

    @property
    def splits(self) -> Iterator[AxisUse]:
        """All uses that split a dimension."""
        return (use for uses in self.dims for use in uses)

    @property
    def uses(self) -> Iterator[AxisUse]:
        """All uses."""
        return (use for uses in (*self.dims, self.partial) for use in uses)

    def placement(self) -> Placement:
        """The same as a `Placement`, which passes work on."""
        dims = [[use.axis for use in uses] for uses in self.dims]
        return Placement(dims, {use.axis: "sum" for use in self.partial}, {use.axis: use.blocks for use in self.splits})

    def with_split(self, dim: int, use: AxisUse) -> Layout:
        """This layout with dimension `dim` split once more."""
        return replace(self, dims=(*self.dims[:dim], (*self.dims[dim], use), *self.dims[dim + 1 :]))

    def __str__(self) -> str:
        dims = ", ".join(" ".join(map(str, uses)) or "-" for uses in self.dims)
        words = [f"[{dims}]" if any(self.dims) else "whole"]
        words += [f"partial {' '.join(map(str, self.partial))}"] if self.partial else []
        return ", ".join(words)


def replicated(rank: int) -> Layout:
    """The layout of a tensor with `rank` dimensions that is replicated on all ranks."""
    return Layout(((),) * rank)
