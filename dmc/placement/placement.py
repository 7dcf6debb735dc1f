"""Placements: how a tensor is spread over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dmc.errors import PlanError
from dmc.memo import kept
from dmc.mesh import Mesh


@dataclass(frozen=True, init=False, repr=False)
class Placement:
    """The placement of a tensor's parts, as in `#dm.sharding`.

    `dims` has one entry for each dimension: the mesh axes that split it, major first. `partial` holds (axis, kind of
    reduction), ordered by axis: along these axes every rank holds a partial result. Along all other axes the value is
    replicated. For one axis these are the split (S), partial (P) and broadcast (B) signatures of OneFlow
    (Yuan et al. 2021, arXiv:2110.15032, section 3.1).

    `blocks` holds (axis, k) with k > 1, ordered by axis: what earlier axes left of the dimension is k equal blocks side
    by side, and the axis splits each of them: for fused queries, keys and values, and for joined dimensions.
    """

    dims: tuple[tuple[str, ...], ...]
    partial: tuple[tuple[str, str], ...]
    blocks: tuple[tuple[str, int], ...]

    def __init__(
        self,
        dims: Iterable[Iterable[str]],
        partial: Mapping[str, str] | None = None,
        blocks: Mapping[str, int] | None = None,
    ) -> None:
        """`partial`: axis to `sum`, `mean`, `prod`, `min` or `max`. `blocks`: axis to number, by default 1.

        Raises PlanError if an axis is used twice, and for blocks below 1 or of an axis that splits nothing.
        """
        # The dataclass is frozen; only construction may set fields. A step has very many placements.
        object.__setattr__(self, "dims", tuple(map(tuple, dims)))
        object.__setattr__(self, "partial", tuple(sorted(partial.items())) if partial else ())
        split_in = tuple(sorted(each for each in blocks.items() if each[1] != 1)) if blocks else ()
        object.__setattr__(self, "blocks", split_in)
        used = self.axes
        if len(set(used)) < len(used):
            axis = next(axis for i, axis in enumerate(used) if axis in used[:i])
            raise PlanError(str(self), f"uses axis '{axis}' twice", "an axis is used at most once")
        for axis, count in split_in:
            if count < 1 or not any(axis in axes for axes in self.dims):
                raise PlanError(str(self), f"has {count} blocks along '{axis}'", "a splitting axis has at least 1")

    def __repr__(self) -> str:
        dims = ", ".join("·".join(map(self.word, axes)) or "-" for axes in self.dims)
        partial = "".join(f", {kind} over {axis}" for axis, kind in self.partial)
        return f"[{dims}]{partial}"

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes along which the value is not replicated: dimension by dimension, then the partial ones."""
        return (*(axis for axes in self.dims for axis in axes), *(axis for axis, _ in self.partial))

    def word(self, axis: str) -> str:
        """The axis, after its number of blocks if there are several: `dp`, `3*tp`."""
        return axis if self.blocks_of(axis) == 1 else f"{self.blocks_of(axis)}*{axis}"

    def blocks_of(self, axis: str) -> int:
        """The number of blocks that `axis` splits."""
        return dict(self.blocks).get(axis, 1)

    def kind(self, axis: str) -> str | None:
        """The pending reduction of the value along `axis`, or None if it is not partial."""
        return dict(self.partial).get(axis)

    def parts(self, mesh: Mesh) -> tuple[int, ...]:
        """The number of parts of each dimension. Raises PlanError for an axis that the mesh does not have."""
        mesh.group_size(axis for axis, _ in self.partial)
        return mesh.parts_of(self.dims)

    def local_shape(self, mesh: Mesh, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one rank's part of a tensor of this shape.

        Raises PlanError for a tensor of another rank, an axis that the mesh does not have, and a dimension whose size
        is not divisible by its parts.
        """
        self._check_rank(shape)
        parts = self.parts(mesh)
        for dim, (size, axes) in enumerate(zip(shape, self.dims, strict=True)):
            left = size
            for axis in axes:
                if left % (mesh.axis_size(axis) * self.blocks_of(axis)):
                    raise self._unequal(dim, size, parts[dim])
                left //= mesh.axis_size(axis)
        return tuple(size // count for size, count in zip(shape, parts, strict=True))

    def whole_shape(self, mesh: Mesh, local_shape: Sequence[int]) -> tuple[int, ...]:
        """The global shape for this local shape. Raises PlanError as `local_shape` does."""
        self._check_rank(local_shape)
        return tuple(size * count for size, count in zip(local_shape, self.parts(mesh), strict=True))

    def without(self, axes: Sequence[str]) -> Placement:
        """The same, replicated along `axes`."""
        return self.keeping(lambda axis: axis not in axes)

    def keeping(self, wanted: Callable[[str], bool]) -> Placement:
        """The same, replicated along every axis that is not `wanted`."""
        dims = [[axis for axis in split if wanted(axis)] for split in self.dims]
        partial = {axis: kind for axis, kind in self.partial if wanted(axis)}
        return Placement(dims, partial, {axis: count for axis, count in self.blocks if wanted(axis)})

    def split(self, dim: int, axes: Sequence[str], blocks: int = 1) -> Placement:
        """The same, with each part of dimension `dim`, as this many blocks, split further over `axes`."""
        dims = (*self.dims[:dim], (*self.dims[dim], *axes), *self.dims[dim + 1 :])
        return Placement(dims, dict(self.partial), {**dict(self.blocks), **dict.fromkeys(axes, blocks)})

    def summed(self, axes: Sequence[str]) -> Placement:
        """The same, as a partial sum over `axes`."""
        return Placement(self.dims, {**dict(self.partial), **dict.fromkeys(axes, "sum")}, dict(self.blocks))

    def complete(self) -> Placement:
        """The same, with all reductions done."""
        return Placement(self.dims, {}, dict(self.blocks))

    def _unequal(self, dim: int, size: int, count: int) -> PlanError:
        blocks = max((self.blocks_of(axis) for axis in self.dims[dim]), default=1)
        within = f" within each of {blocks} blocks" if blocks > 1 else ""
        fact = f"splits dimension {dim} of size {size} into {count} unequal parts{within}"
        return PlanError(str(self), fact, f"make it a multiple of {count * blocks}, or split another dimension")

    def _check_rank(self, shape: Sequence[int]) -> None:
        if len(shape) != len(self.dims):
            fact = f"shards {len(self.dims)} dimensions, but the tensor has {len(shape)}"
            raise PlanError(str(self), fact, "give one entry per dimension")


@kept(16)
def replicated(rank: int) -> Placement:
    """The placement of a replicated tensor with `rank` dimensions."""
    return Placement([()] * rank)
