"""The tiling of matrix products, and the candidates for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dmc.kernels.generated.corners import Corners
from dmc.kernels.generated.launch import power_of_two
from dmc.kernels.generated.matrices import Matrix
from dmc.kernels.generated.products import Product
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Buffer

_PROCESSORS = 132
_LEAST = 16
# Sums are split into more than 8 parts only if each is about this deep.
_DEEPEST = 1 << 14
# With more tile elements per thread, the epilogue handles the tile in halves.
_MOST_AT_ONCE = 64


@dataclass(frozen=True)
class Tiles:
    """The tiling of a product: tiles of rows × columns, `inner` of the depth at a time, `splits` parts of the depth.

    matrices: its factors, if the copy engine transfers their tiles; corners: those of a convolution. resident: how many
    programs a processor has for as long as there are tiles (a persistent kernel), each prefetching its next; 0: each
    program computes one tile. groups: how many groups of warps compute a tile each, in turn.
    """

    product: Product
    rows: int
    columns: int
    inner: int
    splits: int
    matrices: tuple[Matrix, Matrix] | None = None
    resident: int = 0
    groups: int = 1
    corners: Corners | None = None

    @staticmethod
    def of(product: Product, chosen: Candidate, matrices: tuple[Matrix, Matrix] | None) -> Tiles:
        """The tiles of a candidate, no larger than the product."""
        sizes = (("rows", chosen["rows"]), ("columns", chosen["columns"]), ("depth", chosen["inner"]))
        rows, columns, inner = (max(_LEAST, min(tile, power_of_two(product.size(kind)))) for kind, tile in sizes)
        steps = -(-product.size("depth") // inner)
        splits = min(chosen["splits"], steps)
        per_split = -(-steps // splits)
        matrices = matrices if chosen["copied"] else None
        splits = -(-steps // per_split)
        return Tiles(product, rows, columns, inner, splits, matrices, chosen["resident"], chosen.get("groups", 1))

    @property
    def is_copied(self) -> bool:
        """Whether the copy engine transfers tiles of the factors."""
        return self.matrices is not None or self.corners is not None

    def count(self, kind: str) -> int:
        """The number of tiles along the rows or columns."""
        return -(-self.product.size(kind) // getattr(self, kind))

    @property
    def steps(self) -> int:
        """The number of iterations of a program along the depth."""
        return -(-self.product.size("depth") // (self.inner * self.splits))

    @property
    def total(self) -> int:
        """The number of tiles of all batches and parts of the depth."""
        return self.product.size("batches") * self.splits * self.count("rows") * self.count("columns")

    @property
    def programs(self) -> int:
        """The number of programs."""
        return min(self.total, _PROCESSORS * self.resident) if self.resident else self.total

    def at_corners(self, chosen: Candidate, memory: dict[Any, Buffer]) -> Tiles:
        """The same tiles, whose corners move if a candidate copies what is not a plain matrix."""
        if not chosen["copied"] or self.matrices is not None:
            return self
        return replace(self, corners=Corners.of(self.product, memory, self.rows, self.columns, self.inner))

    def by_threads(self) -> Tiles:
        """The same tiles, loaded by threads."""
        return replace(self, matrices=None, corners=None, resident=0, groups=1)


def matrices_of(product: Product, memory: dict[Any, Buffer]) -> tuple[Matrix, Matrix] | None:
    """Both factors of an unbatched product, if the copy engine can transfer their tiles."""
    if product.size("batches") > 1:
        return None
    left, right = (Matrix.of(product, number, memory) for number in (product.first, product.second))
    if left is None or right is None or left.value.type.element_type != right.value.type.element_type:
        return None
    return left, right


def candidates(product: Product, narrow: bool, is_copied: bool) -> tuple[Candidate, ...]:
    """The ways to compute a product, the most promising first: large tiles if there are enough to keep the GPU busy.

    is_copied: whether the copy engine can transfer tiles of its factors.
    """
    if not narrow:
        return (_tile(64, 64, 32, 4, 2), _tile(128, 64, 16, 8, 2), _tile(32, 64, 32, 4, 2))
    rows, columns = product.size("rows"), product.size("columns")
    large = _tile(128, 256, 64, 8, 3), _tile(128, 128, 64, 4, 3), _tile(128, 128, 64, 8, 3), _tile(256, 128, 64, 8, 3)
    small = _tile(64, 64, 64, 4, 4), _tile(64, 128, 64, 4, 4), _tile(128, 64, 64, 4, 4)
    tiles = product.size("batches") * -(-rows // 128) * -(-columns // 128)
    depth = product.size("depth")
    # Few results of a very deep sum, as the gradients of a convolution's filters are, keep the GPU busy in many parts.
    splits = min(max(8, depth // _DEEPEST), _PROCESSORS // max(tiles, 1), depth // 512)
    if splits > 1:
        deep = tuple(
            _tile(128, 128, 64, 4, 4, each) for each in dict.fromkeys((splits, splits + 1, max(splits // 2, 1)))
        )
        return (*deep, small[0], _tile(64, 128, 64, 4, 4, splits))
    if columns <= 64 or rows <= 64:
        return (*small[::-1], large[1]) if columns <= 64 else (small[1], small[0], large[1])
    if tiles >= 2 * _PROCESSORS and is_copied:
        return (*COPIED, *large[:2])
    if tiles >= 2 * _PROCESSORS:
        return (*large, small[0], small[1])
    return (large[1], small[1], small[2], small[0], large[0])


def _tile(rows: int, columns: int, inner: int, warps: int, stages: int, splits: int = 1) -> Candidate:
    pieces = 2 if rows * columns > _MOST_AT_ONCE * 32 * warps else 1
    tiles = {"rows": rows, "columns": columns, "inner": inner, "splits": splits, "pieces": pieces}
    return candidate(warps, stages, **tiles, copied=0, resident=0)


def _copied(rows: int, columns: int, warps: int, stages: int, pieces: int, resident: int) -> Candidate:
    tiles = {"rows": rows, "columns": columns, "inner": 64, "splits": 1, "pieces": pieces}
    return candidate(warps, stages, **tiles, copied=1, resident=resident)


def _in_turn(pieces: int, **options: int) -> Candidate:
    """Two groups of warps: while one multiplies, the other computes its epilogue, in so many pieces."""
    tiles = {"rows": 128, "columns": 128, "inner": 64, "splits": 1, "pieces": pieces}
    return candidate(4, 1, **tiles, copied=1, resident=1, groups=2, **options)


# Each of these is the fastest for some product of a transformer on an H100 or H200.
COPIED = (
    _in_turn(4),
    _in_turn(2),
    _in_turn(1),
    _in_turn(4, looped=1),
    _copied(128, 256, 8, 3, 4, 1),
    _copied(128, 128, 4, 3, 2, 2),
    _copied(128, 128, 4, 3, 2, 0),
    _copied(128, 256, 8, 4, 2, 1),
    _copied(128, 128, 4, 3, 4, 2),
    _copied(128, 128, 8, 3, 1, 0),
)
