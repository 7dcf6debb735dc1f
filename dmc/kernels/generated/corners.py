"""Factors of a convolution as matrices whose tiles the GPU's copy engine (TMA) transfers: tiles with a moving corner.

Of images [H, W, N, C], a tile of images × channels at one pixel is a tile of the matrix [H·W·N, C]; where it begins is
a number that depends on the tile and on the step along the depth. What lies in the padding is read beyond the matrix,
as zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dmc.kernels.generated.element import Element, Range, element_of
from dmc.kernels.generated.index import ZERO, Index, Variable, delinearise, variable
from dmc.kernels.generated.launch import Launch
from dmc.kernels.generated.operations import Places, maps_of
from dmc.kernels.generated.products import Product
from dmc.kernels.recipe import Buffer, View
from dmc.program.sizes import element_bytes

# Of addresses and row strides, in bytes.
_ALIGNMENT = 16
# Of images, and of filters.
_DIMENSIONS = 4
# The elements of a tile, by the side of the product.
_INNER = {"rows": "in_row", "columns": "in_column", "depth": "in_depth"}
_TILES = {"rows": "tile_row", "columns": "tile_column"}


@dataclass(frozen=True)
class Walk:
    """The loops of a product by the variables of its tiles, of the steps along the depth, and of elements in tiles.

    digits: the variables of a step, one for each loop along the depth; the last one counts tiles.
    """

    loops: Places
    digits: tuple[Variable, ...]

    @staticmethod
    def of(product: Product, tile: dict[str, int]) -> Walk | None:
        """The walk in tiles of these sizes; None if a tile would leave the innermost of several loops."""
        loops = [ZERO] * len(product.reduction.loops.sizes)
        digits: list[Variable] = []
        for kind, size in tile.items():
            dims = getattr(product, kind)
            *outer, last = (product.reduction.loops.sizes[dim] for dim in dims)
            if (outer or kind == "depth") and last % size:
                return None
            parts = [*outer, -(-last // size)]
            if kind == "depth":
                digits = [Variable(f"at_{number}", part) for number, part in enumerate(parts)]
                places = [variable(each.name, each.size) for each in digits]
            else:
                places = list(delinearise(variable(_TILES[kind], math.prod(parts)), parts))
            places[-1] = places[-1] * size + variable(_INNER[kind], size)
            for dim, place in zip(dims, places, strict=True):
                loops[dim] = place
        return Walk(tuple(loops), tuple(digits))


@dataclass(frozen=True)
class Moving:
    """A factor in memory, seen as a matrix of `shape`, in tiles of `tile` from `row` and `column` on.

    turned: whether its columns, not its rows, are rows or columns of the product. Where one of `ranges` does not hold,
    the tile is zero.
    """

    element: Element
    shape: tuple[int, int]
    tile: tuple[int, int]
    row: Index
    column: Index
    turned: bool

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The conditions without which a tile is zero."""
        return self.element.ranges

    @staticmethod
    def of(element: Element, across: Variable, along: Variable, excess: int) -> Moving | None:
        """The matrix with tiles that are linear in two variables: of the product's rows or columns, and its depth.

        excess: how far the last tile may exceed the product's rows or columns.
        """
        number, inside = element.number, {across.name, along.name}
        if any(each.place.variables & inside for each in element.ranges):
            return None
        steps = {atom: factor for atom, factor in number.terms if atom.variables & inside}
        if steps.keys() != {across, along} or 1 not in steps.values():
            return None
        turned = steps[along] != 1
        rows, columns = (along, across) if turned else (across, along)
        base = Index(tuple(term for term in number.terms if term[0] not in steps), number.constant)
        stride, width = steps[rows], columns.size - (excess if turned else 0)
        total = math.prod(element.value.type.shape)
        row, column = base // stride, base % stride
        is_aligned = stride * element_bytes(str(element.value.type.element_type)) % _ALIGNMENT == 0
        # What continues in the next row is not a tile of a matrix.
        if not is_aligned or total % stride or column.bounds[0] < 0 or column.bounds[1] + width > stride:
            return None
        return Moving(element, (total // stride, stride), (rows.size, columns.size), row, column, turned)

    def load(self, launch: Launch, done: frozenset[Range], turn: bool = False) -> str:
        """The text of a tile, first along the rows or columns of the product, then along its depth; or transposed.

        done: the conditions that are known to hold.
        """
        emitter, writer = launch.emitter, launch.writer
        row, column = writer.index(self.row), writer.index(self.column)
        left = [emitter.inside(each.place, each.low, each.high) for each in self.ranges if each not in done]
        condition = emitter.all_of(left)
        if condition.constant is None:
            variables = condition.variables | self.row.variables
            row = writer.line("corner", f"tl.where({condition.text}, {row}, {self.shape[0]})", variables)
        view = View(self.shape, (self.shape[1], 1), self.tile)
        # Several programs read it, so no result may be written in its place.
        emitter.loads.append((self.element.value, self.element.number))
        name = launch.descriptor(launch.memory[self.element.value], view)
        return f"{name}.load([{row}, {column}]){'.T' if self.turned != turn else ''}"


@dataclass(frozen=True)
class Corners:
    """Both factors of a convolution, and how their corners move."""

    walk: Walk
    first: Moving
    second: Moving

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The conditions without which a step adds nothing."""
        return tuple(dict.fromkeys((*self.first.ranges, *self.second.ranges)))

    @staticmethod
    def of(product: Product, memory: dict[Any, Buffer], rows: int, columns: int, inner: int) -> Corners | None:
        """Those of an unbatched convolution in tiles of these sizes, if the copy engine can transfer them."""
        if product.batches or not is_convolution(product):
            return None
        walk = Walk.of(product, {"rows": rows, "columns": columns, "depth": inner})
        if walk is None:
            return None
        along = Variable(_INNER["depth"], inner)
        found: list[Moving] = []
        for number, kind, size in ((product.first, "rows", rows), (product.second, "columns", columns)):
            element = element_of(product.factor(number, walk.loops), memory)
            across = Variable(_INNER[kind], size)
            made = element and Moving.of(element, across, along, -product.size(kind) % size)
            if made is None:
                return None
            found.append(made)
        types = {str(each.element.value.type.element_type) for each in found}
        return Corners(walk, *found) if len(types) == 1 else None


def is_convolution(product: Product) -> bool:
    """Whether both factors of a product are images, or filters for them."""
    maps = maps_of(product.reduction.value.owner)
    return all(len(maps[number].results) == _DIMENSIONS for number in (product.first, product.second))
