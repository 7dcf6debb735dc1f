"""Padded dimensions: sizes that ranks do not divide, made larger inside a step.

A dimension of `blocks` equal blocks of `own` elements side by side becomes one of blocks of `wide`: what is there of a
block stands first in it, padding behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias


@dataclass(frozen=True)
class Pad:
    """How one dimension is padded: each of its blocks from `own` elements to `wide`."""

    blocks: int
    own: int
    wide: int

    @property
    def size(self) -> int:
        """The size of the dimension with padding."""
        return self.blocks * self.wide

    def scaled(self, number: int) -> int:
        """An offset or a size in whole elements, at which blocks begin, with padding. The number must be divisible."""
        return number * self.wide // self.own

    def inside(self, before: int, size: int, after: int) -> Pad | None:
        """The padding of a loop of `size` within a dimension that is a loop of `before`, this loop and one of `after`.

        None where padding is no further iterations of this loop.
        """
        blocks, left = divmod(self.blocks, before)
        if left or not blocks or size % blocks or self.wide % after or self.own != size // blocks * after:
            return None
        return Pad(blocks, size // blocks, self.wide // after)

    def around(self, before: int, after: int) -> Pad:
        """The padding of a dimension that joins a loop of `before`, the loop that is padded so, and one of `after`."""
        return Pad(before * self.blocks, self.own * after, self.wide * after)


# For each dimension of a tensor its padding; None where it has none.
Pads: TypeAlias = tuple[Pad | None, ...]


def padded_shape(shape: Sequence[int], pads: Pads) -> tuple[int, ...]:
    """The shape with padding."""
    return tuple(size if pad is None else pad.size for size, pad in zip(shape, pads, strict=True))


def loop_of(pad: Pad, sizes: Sequence[int]) -> tuple[int, Pad] | None:
    """The loop, of those that a dimension joins, major first, that is padded, and its padding.

    A loop of one iteration only where no other can be: the head of one key is no dimension to split.
    """
    found = [
        (i, inner)
        for i, size in enumerate(sizes)
        if (inner := pad.inside(prod(sizes[:i]), size, prod(sizes[i + 1 :]))) is not None
    ]
    return next((each for each in found if sizes[each[0]] > 1), found[0] if found else None)
