"""Dimensions that ranks do not divide: the padding with which a step computes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import lcm, prod
from typing import TypeAlias

from dmc.mesh import Mesh
from dmc.placement.pads import Pad, Pads, padded_shape
from dmc.plans.layout import AxisUse, Layout

# Matrix products are fast where a rank's part is a multiple of this; how much more padding that is worth.
_ALIGNED, _WORTH = 64, 0.01
# The factors of a dimension, major first: their sizes, and whether ranks may have parts of each.
Factors: TypeAlias = tuple[tuple[int, bool], ...]


def pads_of(shape: Sequence[int], layouts: Sequence[Layout], mesh: Mesh, units: Sequence[int] = ()) -> Pads:
    """The padding of a tensor that is placed in each of these layouts at one time or another.

    The size of each dimension must be divisible by its blocks. units: for each dimension the size of what stays
    together in the first layout, such as the elements of a head.
    """
    return tuple(
        _pad(size, [layout.dims[dim] for layout in layouts], mesh, units[dim] if units else 1)
        for dim, size in enumerate(shape)
    )


def units_of(factors: Sequence[Factors], layout: Layout, mesh: Mesh) -> tuple[int, ...]:
    """For each dimension the size of what stays together where a layout splits it: all behind the factor that is split.

    That is the first behind the blocks, or one further on where the ranks divide all until there.
    """
    return tuple(_unit(own, uses, mesh) for own, uses in zip(factors, layout.dims, strict=True))


def of_split(pads: Pads, layout: Layout) -> Pads:
    """The padding of the dimensions that a layout splits."""
    return tuple(pad if uses else None for pad, uses in zip(pads, layout.dims, strict=True))


def local_shape(shape: Sequence[int], layout: Layout, mesh: Mesh, pads: Pads) -> tuple[int, ...]:
    """The shape of a rank's part with its padding."""
    return layout.placement().local_shape(mesh, padded_shape(shape, of_split(pads, layout)))


def _unit(factors: Factors, uses: Sequence[AxisUse], mesh: Mesh) -> int:
    if not uses:
        return 1
    blocks, left = max(use.blocks for use in uses), list(factors)
    while left and blocks > 1 and blocks % left[0][0] == 0:
        blocks //= left.pop(0)[0]
    ranks, sizes = mesh.group_size(use.axis for use in uses), [size for size, _ in left]
    free = next((i for i, (_, is_free) in enumerate(left) if not is_free), len(left))
    if blocks > 1 or not free:
        return 1
    even = (number for number in range(1, free + 1) if prod(sizes[:number]) % ranks == 0)
    return prod(sizes[next(even, 1) :])


def _pad(size: int, uses: Sequence[Sequence[AxisUse]], mesh: Mesh, unit: int) -> Pad | None:
    if not any(uses) or not size:
        return None
    blocks = max(use.blocks for each in uses for use in each)
    own = size // blocks

    def fits(wide: int) -> bool:
        is_even = all(_divides(blocks * wide, each, mesh) for each in uses)
        return is_even and _divides(blocks * wide // unit, uses[0], mesh)

    wide = next(filter(fits, _multiples(own, unit)))
    if wide == own:
        return None
    step = lcm(unit, _ALIGNED * max(mesh.group_size(use.axis for use in each) for each in uses))
    aligned = next(_multiples(own, step))
    return Pad(blocks, own, aligned if aligned <= own * (1 + _WORTH) and fits(aligned) else wide)


def _multiples(own: int, unit: int) -> Iterator[int]:
    return count(-(-own // unit) * unit, unit)


def _divides(size: int, uses: Sequence[AxisUse], mesh: Mesh) -> bool:
    for use in uses:
        ranks = mesh.axis_size(use.axis)
        if size % (use.blocks * ranks):
            return False
        size //= ranks
    return True
