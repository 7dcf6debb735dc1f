"""Which operations can share the loops of one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dmc._mlir import ir, linalg
from dmc.analysis.kernels.contractions import REDUCTION, is_contraction
from dmc.analysis.kernels.cost import loop_sizes
from dmc.kernels import row_sums
from dmc.kernels.bits import packed_width
from dmc.walk import loop_kinds

_SLICE = "tensor.extract_slice"
MOVES = ("linalg.transpose", "linalg.broadcast", "linalg.fill", _SLICE)
# Parts of tensors taken or put together: index arithmetic in generated kernels. IREE's only take them: what is put
# together is a kernel of its own.
PIECES = (_SLICE, "tensor.insert_slice", "tensor.concat")
# A kernel evaluates all parts for every element.
_MOST_PARTS = 4
_MATRIX = 2
# With fewer rows than this, a row-wise kernel does not pay.
ROWS = 16


@dataclass(frozen=True)
class Loops:
    """The loops of a kernel, as far as they restrict fusion.

    sizes: the result sizes of its elementwise operations. product: that of its matrix product or convolution. width:
    the number of columns of a product of two matrices, without batches. rows: the number of results of its reductions,
    and elements per result, where the last dimensions are reduced; columns: likewise for other dimensions. words: the
    number of those that it packs a mask into, each made by one thread. inner: whether columns are not the last
    dimensions.
    """

    sizes: frozenset[int] = frozenset()
    product: int | None = None
    width: int | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None
    words: int | None = None
    inner: bool = False

    @property
    def over(self) -> tuple[int, ...]:
        """The loops over all its elements, with reductions separate."""
        return self.rows or self.columns or ((self.product or max(self.sizes)),)

    @property
    def by_columns(self) -> tuple[int, int] | None:
        """Of a product of two matrices the number of columns, and elements per column."""
        return (self.width, self.product // self.width) if self.product and self.width else None

    @property
    def sums_rows(self) -> bool:
        """Whether it adds up over the rows of a product what comes of it."""
        return bool(self.product and self.columns)

    @property
    def sums_own_rows(self) -> bool:
        """Whether it reduces rows, and adds up columns over all of them."""
        return bool(self.rows and self.columns and not self.inner and row_sums.is_across(self.rows, self.columns))

    @property
    def is_elementwise(self) -> bool:
        """Whether it neither reduces nor multiplies matrices."""
        return not (self.product or self.rows or self.columns or self.words)

    def joined(self, other: Loops, own: bool = False) -> Loops | str:
        """The loops of the fusion of two kernels, or why they cannot be fused.

        own: whether dmc's own code computes the kernel: it adds up over the rows of a product, or over rows that it
        reduces, what comes of them.
        """
        if self.product and other.product:
            return "two products"
        if (self.words and not other.is_elementwise) or (other.words and not self.is_elementwise):
            return "a mask is packed by a kernel of its own"
        both = Loops(
            sizes=self.sizes | other.sizes,
            product=self.product or other.product,
            width=self.width or other.width,
            rows=self.rows or other.rows,
            columns=self.columns or other.columns,
            words=self.words or other.words,
            inner=self.inner or other.inner,
        )
        reductions = {each for each in (self.rows, other.rows, self.columns, other.columns) if each}
        is_summed = own and both.columns and both.columns == both.by_columns and not both.rows
        if both.product and reductions and not is_summed:
            return "a product and a reduction"
        is_across = own and both.sums_own_rows and reductions == {both.rows, both.columns}
        if not is_across and (len(reductions) > 1 or (both.rows and both.columns)):
            return "reductions over different loops"
        if any(count == 1 for count, _ in reductions) and 1 in both.sizes:
            return "computation on a value reduced to one element"
        allowed = {prod(each) for each in reductions} | {each[0] for each in reductions}
        allowed |= {both.product} if both.product else set()
        return both if not allowed or both.sizes <= allowed else "elementwise over other loops"

    def may_give(self, size: int, summed: bool = False) -> bool:
        """Whether the kernel may return a result of this size: one that no later loop would recompute.

        summed: or what it sums over columns, element by element.
        """
        if self.words:
            return size in (self.words, max(self.sizes))
        if self.rows and self.rows[0] >= ROWS:
            return True
        if (summed or self.product) and self.columns and size == prod(self.columns):
            return True
        reduction = self.rows or self.columns
        return size == (reduction[0] if reduction else self.product or max(self.sizes))


def loops_of(op: ir.Operation, own: bool = False) -> Loops | None:
    """The loops of an operation; None for one that needs its own kernel.

    own: whether dmc's own code computes kernels: it computes `PIECES`, and masks as words, with others.
    """
    if op.name in MOVES or (own and op.name in PIECES and len(op.operands) <= _MOST_PARTS):
        return Loops(sizes=frozenset((prod(op.results[0].type.shape),)))
    if is_contraction(op):
        shape = op.results[0].type.shape
        return Loops(product=prod(shape), width=shape[-1] if len(shape) == _MATRIX else None)
    if op.name != "linalg.generic" or not all(_is_plain(each) for each in _maps(op)):
        return None
    kinds = [each == REDUCTION for each in loop_kinds(op)]
    sizes = loop_sizes(op)
    if own and packed_width(op) is not None:
        return Loops(sizes=frozenset((prod(sizes),)), words=prod(sizes[:-1]))
    if not any(kinds):
        return Loops(sizes=frozenset((prod(sizes),)))
    shape = (
        prod(size for size, is_reduced in zip(sizes, kinds, strict=True) if not is_reduced),
        prod(size for size, is_reduced in zip(sizes, kinds, strict=True) if is_reduced),
    )
    if kinds == sorted(kinds):
        return Loops(rows=shape)
    return Loops(columns=shape, inner=kinds != sorted(kinds, reverse=True))


def keeps_order(op: ir.Operation, index: int) -> bool:
    """Whether operand `index` is read, and results are written, in loop order."""
    if op.name == "linalg.transpose":
        return False
    if op.name != "linalg.generic":
        return True
    maps = _maps(op)
    read, written = (_places(each) for each in (maps[index], maps[-1]))
    return read == sorted(read) and written == sorted(written)


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op) or ()]


def _places(each: ir.AffineMap) -> list[int]:
    return [place.position for place in each.results if isinstance(place, ir.AffineDimExpr)]


def _is_plain(each: ir.AffineMap) -> bool:
    places = _places(each)
    others = [place for place in each.results if not isinstance(place, ir.AffineDimExpr | ir.AffineConstantExpr)]
    return not others and len(set(places)) == len(places)
