"""Dropout inside a kernel of attention: the same bits as its composite draws."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.dropout import Share, share_of_attention
from dmc.kernels.problem import Problem

# Of a Philox block, and blocks that a group of neighbours in a row shares: see `dmc.kernels.jit.philox`.
_BLOCK_BITS, _BLOCKS = 128, 4


@dataclass(frozen=True)
class Tile:
    """What a program draws for at once: rows × columns, by `most_warps` at most.

    As the accumulator of a matrix product has them, rows are [rest, warps, pair, eight]: a thread holds row r and row
    r + 8 of the 16 of its warp.
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


@dataclass(frozen=True)
class Dropout:
    """An element is kept where its `bits` bits, 16 or 8, are ≥ `threshold`.

    blocks: those of a row; every row begins with new ones. scale: what kept elements are multiplied by. wide: the
    tensor has so many blocks that their numbers need 64 bits.
    """

    blocks: int
    bits: int
    threshold: int
    scale: float
    wide: bool
    tile: Tile

    @property
    def lanes(self) -> int:
        """Elements of a block."""
        return _BLOCK_BITS // self.bits

    @property
    def pairs(self) -> int:
        """Pairs of neighbours of a word."""
        return 16 // self.bits

    @property
    def group(self) -> int:
        """Neighbours in a row that share whole blocks."""
        return _BLOCKS * self.lanes

    @property
    def groups(self) -> int:
        """Of the columns of a tile."""
        return self.tile.columns // self.group

    @property
    def is_aligned(self) -> bool:
        """Whether the rows of a tile begin with a group, if it does."""
        return self.tile.columns % self.group == 0


def dropout_of(problem: Problem, rows: int, columns: int, tile: Tile) -> Dropout | None:
    """Dropout as a problem wants it, in a tensor of so many rows; None where nothing is dropped."""
    p = problem.number("p")
    if p <= 0.0:
        return None
    share = _share(problem)
    blocks = -(-columns * share.bits // (_BLOCKS * _BLOCK_BITS)) * _BLOCKS
    return Dropout(blocks, share.bits, share.threshold, share.scale, rows * blocks >= 2**32, tile)


def refuses_dropout(problem: Problem) -> str | None:
    """Why no kernel drops as a problem wants it, or None."""
    # Such a threshold has more bits than an element.
    return None if _share(problem).dropped < 1.0 else f"drops everything (p = {problem.number('p')})"


def _share(problem: Problem) -> Share:
    return share_of_attention(problem.number("p"))
