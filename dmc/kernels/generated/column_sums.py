"""Sums over the rows of what an epilogue computes, as the gradient of a bias: one for each tile, and then their sum.

So that what a product gives need not be read again. The order is fixed: equal input gives equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc.kernels.generated.index import Index, variable
from dmc.kernels.generated.launch import Launch, stem_of
from dmc.kernels.generated.pieces import Piece
from dmc.kernels.generated.products import Product
from dmc.kernels.generated.reducing import Reduction, reduce_tile, tile_of
from dmc.kernels.generated.split import Sharing
from dmc.kernels.generated.tiles import Tiles
from dmc.kernels.generated.value import Value
from dmc.kernels.recipe import Buffer

_SUM, _HELD = "arith.addf", "f32"


def are_column_sums(product: Product, reductions: Sequence[Reduction]) -> bool:
    """Whether all reductions add up over the rows of a product without batches."""
    loops = (True, product.size("rows")), (False, product.size("columns"))
    return product.size("batches") == 1 and all(
        each.loops.signature == loops and (each.name, each.held) == (_SUM, _HELD) for each in reductions
    )


@dataclass(frozen=True)
class ColumnSums:
    """parts: for each reduction, where its sums of tiles are, f32[tiles along the rows, columns]."""

    reductions: tuple[Reduction, ...] = ()
    parts: tuple[Buffer, ...] = ()

    def share(self, tiles: Tiles) -> Sharing:
        """The partition of the work: each tile along the rows makes a part of all sums of its columns."""
        loops = self.reductions[0].loops
        return Sharing(loops, tiles.columns, tiles.rows, 1, tiles.count("rows"))

    def leave(self, launch: Launch, tiles: Tiles, row: Index, piece: Piece) -> None:
        """Stores the sums of a piece of a tile, in Triton."""
        if not self.reductions:
            return
        count = tiles.product.size("columns")
        block = variable(launch.variable("block", "tile_row"), tiles.count("rows"))
        for each, part, tile in self._tiles(launch, tiles, row, piece):
            total = reduce_tile(launch, each, tile, 0, row.variables | piece.place.variables)
            number = block * count + piece.place
            launch.leave(part, number, Value(total, each.dtype, each.held, number.variables))

    def leave_in_gluon(self, launch: Launch, tiles: Tiles, row: Index, piece: Piece) -> None:
        """The same where `dmc.kernels.jit.ping_pong` says where a tile's elements are."""
        count = tiles.product.size("columns")
        most = count if count % tiles.columns else 0
        for _, part, tile in self._tiles(launch, tiles, row, piece):
            address = f"{stem_of(part)}_at + tile_row * {count}"
            launch.waiting.append(f"ping_pong.add_rows({address}, {piece.start(tiles)}, {tile}, {most})")
            launch.written.append(part)

    def _tiles(self, launch: Launch, tiles: Tiles, row: Index, piece: Piece) -> list[tuple[Reduction, Buffer, str]]:
        axes = row.variables | piece.place.variables
        shape = f"[{tiles.rows}, {piece.columns}]"
        found: list[tuple[Reduction, Buffer, str]] = []
        for each, part in zip(self.reductions, self.parts, strict=True):
            value = each.contribution(launch.emitter, each.loops.places(piece.place, row))
            found.append((each, part, tile_of(launch, each, value, shape, axes, row.variables)))
        return found
