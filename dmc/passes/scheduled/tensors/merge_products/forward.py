"""Products whose results an attention reads: with a common left factor, they are one product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.requests.keeping import ModuleWord
from dmc.dialect.kinds import traits_of
from dmc.passes.scheduled.tensors.merge_products.chains import (
    are_told_apart,
    is_aligned,
    moved_from,
    product_behind,
    readers,
)
from dmc.passes.scheduled.tensors.merge_products.side_by_side import SideBySide, Values, is_given, is_read_inside

_COLUMNS = 1


def merge_before(op: dm.CompositeOp, side: SideBySide, words: Sequence[ModuleWord]) -> None:
    """`attention(x·A + a, x·B + b, x·C + c)` reads slices of `x·[A B C] + [a b c]`."""
    for roots, products in _groups(op):
        family = side.family(roots, _COLUMNS)
        is_free = is_given(family) and is_read_inside(family, roots, family.ops)
        if is_free and all(map(_is_read_in_place, roots)) and not are_told_apart(products, words):
            with ir.InsertionPoint(roots[0].owner):
                side.replace(family, roots, _COLUMNS)


def _groups(op: dm.CompositeOp) -> Iterator[tuple[Values, tuple[ir.Operation, ...]]]:
    """What the attention reads of queries, keys and values, and their products, by left factor."""
    found: dict[ir.Value, dict[ir.Value, ir.Operation]] = {}
    for value in op.inputs[:3]:
        root = moved_from(value)
        product = product_behind(root)
        if product is not None and len(root.type.shape) == 2:
            found.setdefault(product.operands[0], {})[root] = product
    for products in found.values():
        if len(products) > 1:
            yield tuple(products), tuple(products.values())


def _is_read_in_place(root: ir.Value) -> bool:
    """Whether all readers can read columns of a wider matrix."""
    return is_aligned(root) and all(traits_of(op).queries is not None for op in readers(root))
