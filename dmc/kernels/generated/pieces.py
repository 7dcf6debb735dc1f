"""The pieces in which the epilogue of a product handles a tile, and how they are stored."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dmc.kernels.generated.index import ZERO, Index, variable
from dmc.kernels.generated.launch import Launch, Root
from dmc.kernels.generated.matrices import STORED, is_stored_in_tiles, store_tile
from dmc.kernels.generated.tiles import Tiles
from dmc.kernels.recipe import View


@dataclass(frozen=True)
class Language:
    """How a kernel says the halves of a tile, of so many rows and columns, and the numbers of a piece's columns."""

    halves: str
    columns: str


TRITON = Language(
    "tl.split(tl.permute(tl.reshape({name}, [{rows}, 2, {columns}]), (0, 2, 1)))", "tl.arange(0, {columns})[None, :]"
)


@dataclass(frozen=True)
class Piece:
    """Some columns of a tile: the name of its values, their places, the first column, maybe as text, and the number of
    columns."""

    name: str
    place: Index
    first: int | str
    columns: int

    def start(self, tiles: Tiles) -> str:
        """The text of the first column."""
        return f"tile_column * {tiles.columns}" + (f" + {self.first}" if self.first else "")


def pieces_of(launch: Launch, tiles: Tiles, whole: Piece, count: int, language: Language) -> list[Piece]:
    """A wide tile in pieces, so that one piece's epilogue leaves the registers before the next begins."""
    if count == 1:
        return [whole]
    writer, half = launch.writer, whole.columns // 2
    names = [writer.name(f"{whole.name}_left"), writer.name(f"{whole.name}_right")]
    halves = language.halves.format(name=whole.name, rows=tiles.rows, columns=half)
    writer.raw(f"{', '.join(names)} = {halves}")
    pieces: list[Piece] = []
    assert isinstance(whole.first, int), "an iteration's piece has no pieces"
    for name, first in zip(names, (whole.first, whole.first + half), strict=True):
        part = Piece(name, ZERO, first, half)
        if count == 2:
            part = replace(part, place=columns_of(launch, tiles, part, language))
        pieces += pieces_of(launch, tiles, part, count // 2, language)
    return pieces


def columns_of(launch: Launch, tiles: Tiles, piece: Piece, language: Language) -> Index:
    """Declares the columns of a piece."""
    count = tiles.product.size("columns")
    mask = f"{{}} < {count}" if count % tiles.columns else ""
    text = f"{piece.start(tiles)} + {language.columns.format(columns=piece.columns)}"
    return variable(launch.variable("column", text, mask), count)


def store(
    launch: Launch, tiles: Tiles, root: Root, number: Index, row: Index, piece: Piece, text: str = STORED
) -> None:
    """Emits a piece of a root and stores it at the next `flush`, by a line like `text`."""
    rows, columns = tiles.product.size("rows"), tiles.product.size("columns")
    is_matrix = tiles.is_copied and number == row * columns + piece.place
    if not is_matrix or not is_stored_in_tiles(root, columns):
        launch.root(root, number)
        return
    view = View((rows, columns), (columns, 1), (tiles.rows, piece.columns))
    corner = f"tile_row * {tiles.rows}, {piece.start(tiles)}"
    store_tile(launch, root, number, view, corner, row.variables | piece.place.variables, text)
