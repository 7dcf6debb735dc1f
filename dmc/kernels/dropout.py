"""Dropout inside a kernel: the same bits as the composite `dropout` draws for the same tensor."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.kernels.problem import Problem

# Bits of an element, elements of a Philox block, and elements that share whole blocks: see `dmc.kernels.jit.philox`.
BITS = 16
LANES = 8
GROUP = 32


@dataclass(frozen=True)
class Tile:
    """What a program draws for at once: rows × columns, by `most_warps` at most.

    As the accumulator of a matrix product has them, rows are [rest, warps, pair, eight], columns `groups`: a thread
    holds row r and row r + 8 of the 16 of its warp.
    """

    rows: int
    columns: int
    most_warps: int

    @property
    def eight(self) -> int:
        """Rows beside each other."""
        return min(8, self.rows)

    @property
    def pair(self) -> int:
        """Rows of a thread among those of its warp."""
        return min(2, self.rows // self.eight)

    @property
    def warps(self) -> int:
        """How many share the rows."""
        return min(self.most_warps, self.rows // (self.eight * self.pair))

    @property
    def rest(self) -> int:
        """How often the warps do."""
        return self.rows // (self.eight * self.pair * self.warps)

    @property
    def groups(self) -> int:
        """Of 32 columns."""
        return self.columns // GROUP


@dataclass(frozen=True)
class Dropout:
    """An element is kept where its bits are ≥ `threshold`.

    blocks: those of a row; every row begins with new ones. scale: what kept elements are multiplied by. wide: the
    tensor has so many blocks that their numbers need 64 bits.
    """

    blocks: int
    threshold: int
    scale: float
    wide: bool
    tile: Tile

    @property
    def is_aligned(self) -> bool:
        """Whether the rows of a tile begin with a group, if it does."""
        return self.tile.columns % GROUP == 0


def dropout_of(problem: Problem, rows: int, columns: int, tile: Tile) -> Dropout | None:
    """Dropout as a problem wants it, in a tensor of so many rows; None where nothing is dropped."""
    p = problem.number("p")
    if p <= 0.0:
        return None
    blocks = -(-columns // GROUP) * (GROUP // LANES)
    return Dropout(blocks, round(p * 2**BITS), 1.0 / (1.0 - p), rows * blocks >= 2**32, tile)


def refuses_dropout(problem: Problem) -> str | None:
    """Why no kernel drops as a problem wants it, or None."""
    p = problem.number("p")
    # Such a threshold has more bits than an element.
    return None if round(p * 2**BITS) < 2**BITS else f"drops everything (p = {p})"
