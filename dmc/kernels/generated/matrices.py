"""Factors and results of a product as matrices whose tiles the GPU's copy engine (TMA) transfers.

No thread computes addresses; elements outside of a matrix are read as zero and not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dmc.dtypes import FACTORS, NARROW
from dmc.kernels.generated.arithmetic import full
from dmc.kernels.generated.emitter import Unbound
from dmc.kernels.generated.index import ZERO, Index, Variable, delinearise, variable
from dmc.kernels.generated.launch import Launch, Root
from dmc.kernels.generated.products import Product
from dmc.kernels.generated.value import Declined
from dmc.kernels.recipe import Buffer, View
from dmc.program.sizes import element_bytes

# Of addresses and row strides, in bytes.
_ALIGNMENT = 16
# How a tile is stored.
STORED = "{tiles}.store([{corner}], {value})"


@dataclass(frozen=True)
class Matrix:
    """A factor in memory: `shape`, rows `stride` elements apart.

    turned: whether its columns, not its rows, are rows or columns of the product. value, place: the tensor and the
    index that are read.
    """

    value: Any
    place: Index
    shape: tuple[int, int]
    stride: int
    turned: bool

    @staticmethod
    def of(product: Product, number: int, memory: dict[Any, Buffer]) -> Matrix | None:
        """The matrix of a factor, if it is read from memory unchanged and has 16 bits per element."""
        probe = Launch("probe", "", memory)
        outer = variable("outer", product.size("rows" if number == product.first else "columns"))
        inner = variable("inner", product.size("depth"))
        sides = (outer, ZERO) if number == product.first else (ZERO, outer)
        try:
            made = probe.emitter.emit(*product.factor(number, product.loops(ZERO, *sides, inner)))
        except (Unbound, Declined):
            return None
        made = probe.writer.widened.get(made.text, made)
        loads = probe.emitter.loads
        if len(loads) != 1 or made.held not in NARROW or made.text != probe.emitter.memory[loads[0][0]]:
            return None
        return _matrix(*loads[0], outer, inner)

    def load(self, launch: Launch, tile: tuple[int, int], corner: tuple[str, str], turn: bool = False) -> str:
        """The text of a tile, first along the rows or columns of the product, then along its depth; or transposed."""
        corner = (corner[1], corner[0]) if self.turned else corner
        return f"{self.tiles(launch, tile)}.load([{', '.join(corner)}]){'.T' if self.turned != turn else ''}"

    def tiles(self, launch: Launch, tile: tuple[int, int]) -> str:
        """The name of the descriptor of its tiles, of such a shape."""
        view = View(self.shape, (self.stride, 1), (tile[1], tile[0]) if self.turned else tile)
        # Several programs read it, so no result may be written in its place.
        launch.emitter.loads.append((self.value, self.place))
        return launch.descriptor(launch.memory[self.value], view)


def _matrix(value: Any, place: Index, outer: Index, inner: Index) -> Matrix | None:
    (across, _), (along, _) = *outer.terms, *inner.terms
    steps = dict(place.terms)
    if place.constant or steps.keys() != {across, along} or 1 not in steps.values():
        return None
    assert isinstance(across, Variable) and isinstance(along, Variable)
    turned = steps[along] != 1
    rows, columns = (along, across) if turned else (across, along)
    stride = steps[rows]
    is_aligned = stride * element_bytes(str(value.type.element_type)) % _ALIGNMENT == 0
    # Overlapping rows (sliding windows) are not a matrix.
    if not is_aligned or stride < columns.size:
        return None
    return Matrix(value, place, (rows.size, columns.size), stride, turned)


def store_tile(
    launch: Launch, root: Root, number: Index, view: View, corner: str, axes: frozenset[str], text: str
) -> None:
    """Emits a tile of a root and stores it at the next `flush`, by the copy engine if possible."""
    made = launch.emitter.emit(root.value, delinearise(number, root.shape))
    if made.held not in FACTORS or made.held != str(root.value.type.element_type) or made.variables != axes:
        launch.root(root, number)
        return
    name = launch.descriptor(root.buffer, view)
    launch.waiting.append(text.format(tiles=name, corner=corner, value=full(launch.writer, made, made.held)))
    launch.written.append(root.buffer)
    launch.stores.append((root, number))


def is_stored_in_tiles(root: Root, columns: int) -> bool:
    """Whether the copy engine can store rows of so many columns."""
    dtype = str(root.value.type.element_type)
    return dtype in FACTORS and columns * element_bytes(dtype) % _ALIGNMENT == 0
