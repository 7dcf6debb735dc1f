"""The ranks of a job, arranged along named axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from dmc.errors import PlanError

LINKS = ("memory", "nvlink", "pcie", "network")


@dataclass(frozen=True, init=False, repr=False)
class Mesh:
    """`Mesh(dp=2, tp=4)`: eight ranks in two rows of four. Axes are in the order given, major first.

    Ranks count row-major, so the ranks along the last axis are neighbours (as in `dm.mesh`). `axes`, `sizes` and
    `links` have one entry for each axis; a link is None where the user named none; the target then decides.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    links: tuple[str | None, ...]

    def __init__(self, *, links: Mapping[str, str] | None = None, **axes: int) -> None:
        """`axes`: name to size. `links`: axis to the slowest link between neighbours along it, one of `LINKS`.

        Raises PlanError on no axis, a name that is not an identifier, a size below 1, or a link that does not exist.
        """
        given: Any = links or {}
        if not isinstance(given, Mapping):
            raise PlanError(
                "mesh",
                "axis name 'links' is reserved",
                hint="links={…} describes how ranks are connected; rename the axis",
            )
        _check_axes(axes)
        _check_links(given, axes)
        # The dataclass is frozen; only construction may set fields.
        object.__setattr__(self, "axes", tuple(axes))
        object.__setattr__(self, "sizes", tuple(axes.values()))
        object.__setattr__(self, "links", tuple((links or {}).get(axis) for axis in axes))

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{axis}={size}' for axis, size in self.items())})"

    def items(self) -> Iterator[tuple[str, int]]:
        """Axis and size, major first."""
        return zip(self.axes, self.sizes, strict=True)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return prod(self.sizes)

    @property
    def ranks(self) -> range:
        """All rank numbers."""
        return range(self.size)

    def axis_size(self, axis: str) -> int:
        """The number of ranks along `axis`. Raises PlanError for an axis that the mesh does not have."""
        if axis not in self.axes:
            raise PlanError(f"axis '{axis}'", f"does not exist in {self}", hint=f"use one of {', '.join(self.axes)}")
        return self.sizes[self.axes.index(axis)]

    def group_size(self, axes: Iterable[str]) -> int:
        """The number of ranks that differ only along `axes` (1 for no axis)."""
        return prod(self.axis_size(axis) for axis in axes)

    def parts_of(self, dims: Iterable[Iterable[str]]) -> tuple[int, ...]:
        """The number of parts into which axes split each dimension."""
        return tuple(self.group_size(axes) for axes in dims)

    def coordinates(self, rank: int) -> dict[str, int]:
        """The rank's index along each axis. Raises PlanError for a rank that the mesh does not have."""
        if rank not in self.ranks:
            raise PlanError(f"rank {rank}", f"does not exist in {self}", hint=f"ranks are 0 to {self.size - 1}")
        indices: dict[str, int] = {}
        for axis, size in reversed(list(self.items())):
            rank, indices[axis] = divmod(rank, size)
        return {axis: indices[axis] for axis in self.axes}

    def rank_at(self, coordinates: Mapping[str, int]) -> int:
        """The rank at an index along every axis: the inverse of `coordinates`."""
        rank = 0
        for axis, size in self.items():
            rank = rank * size + coordinates[axis]
        return rank

    def index_in_group(self, rank: int, axes: Sequence[str]) -> int:
        """The rank's place in its group along `axes`, counted row-major over `axes` in the order given."""
        indices, place = self.coordinates(rank), 0
        for axis in axes:
            place = place * self.axis_size(axis) + indices[axis]
        return place

    def group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """The ranks that differ from `rank` only along `axes`, itself included, by their place in the group."""
        own = self.coordinates(rank)
        indices = product(*(range(self.axis_size(axis)) for axis in axes))
        return tuple(self.rank_at({**own, **dict(zip(axes, index, strict=True))}) for index in indices)

    def groups(self, axes: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """All groups along `axes`: every rank is in exactly one. Ordered by their first rank."""
        return tuple(self.group(rank, axes) for rank in self.ranks if self.index_in_group(rank, axes) == 0)


def _check_axes(axes: Mapping[str, Any]) -> None:
    if not axes:
        raise PlanError("mesh", "has no axis", hint="a mesh of one rank is Mesh(dp=1)")
    for axis, size in axes.items():
        if not axis.isidentifier():
            raise PlanError("mesh", f"axis name '{axis}' is not an identifier", hint="use letters, digits and '_'")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise PlanError("mesh", f"axis '{axis}' has size {size!r}", hint="a size must be an integer of at least 1")


def _check_links(links: Mapping[str, str], axes: Mapping[str, int]) -> None:
    for axis, link in links.items():
        if axis not in axes:
            raise PlanError("mesh", f"a link is given for axis '{axis}'", hint=f"the axes are {', '.join(axes)}")
        if link not in LINKS:
            raise PlanError("mesh", f"axis '{axis}' has link '{link}'", hint=f"use one of {', '.join(LINKS)}")
