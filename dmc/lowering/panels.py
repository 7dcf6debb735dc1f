"""Operands of matrix products in panels: strips as wide as the registers, each of which lies in one piece.

A product goes through the whole depth for every small tile of its result. In a matrix as PyTorch stores it, neighbours
along the depth are a row apart: each step touches another cache line and often another page, and rows whose length is a
power of two share a few sets of the cache. In panels, what follows in the depth follows in memory.
"""

from __future__ import annotations

from dmc._mlir import ir, linalg, tensor
from dmc.dialect.iree import fusion_barrier
from dmc.walk import walk

# Columns of a panel of the right matrix, or rows of one of the left: a cache line, so that packing writes whole ones.
WIDTH = 16
# On a product: its left and its right matrix are said to be matrices, but lie in panels ("right", "both").
MARK = "panels"
# Rows and columns of the result: with fewer, panels are read too few times. More rows where no operand is transposed.
_ROWS, _COLUMNS, _ROWS_PLAIN = 64, 64, 512


def pack_panels(module: ir.Module, without: frozenset[str] = frozenset()) -> None:
    """Puts operands of large f32 products into panels, in a loop of their own, where that pays.

    without: functions that are left as they are.

    `matmul(x, w)` becomes `matmul(x, as_matrix(barrier(panels(w)))) {panels = "right"}`. What the product then reads is
    only called a matrix, so that IREE joins it with the loops behind it: `with_panel_loops` tells what it is.
    """
    functions = [op for op in module.body.operations if op.operation.attributes["sym_name"].value not in without]
    for op in [op for function in functions for op in walk(function) if _is_product(op)]:
        rows, columns = ir.RankedTensorType(op.results[0].type).shape
        left, right = (_source(each) for each in op.operands[:2])
        both = left != op.operands[0]
        least = _ROWS if both or right != op.operands[1] else _ROWS_PLAIN
        if rows < least or columns < _COLUMNS or rows % WIDTH or columns % WIDTH:
            continue
        with op.location:
            op.operands[1] = _packed(op.operands[1], right, 1)
            if both:
                op.operands[0] = _packed(op.operands[0], left, 0)
            op.attributes[MARK] = ir.StringAttr.get("both" if both else "right")


def _is_product(op: ir.Operation) -> bool:
    if op.name != "linalg.matmul":
        return False
    return all(isinstance(ir.RankedTensorType(each.type).element_type, ir.F32Type) for each in op.operands)


def _source(value: ir.Value) -> ir.Value:
    """The matrix that this one is the transpose of; itself where it is not a transpose."""
    maker = value.owner
    if isinstance(maker, ir.Operation | ir.OpView) and maker.operation.name == "linalg.transpose":
        return maker.operation.operands[0]
    return value


def _packed(value: ir.Value, source: ir.Value, side: int) -> ir.Value:
    """The panels of the operand `value` of a product, under its own type. side: 0 left, 1 right.

    source: `value`, or what it is the transpose of. IREE joins equal panels of several products.
    """
    return _as_matrix(_panels(value, source, side), value.type)


def _panels(value: ir.Value, source: ir.Value, side: int) -> ir.Value:
    """Those of `value`: panel, depth, place in the panel."""
    across = 1 if side else 0
    kind = ir.RankedTensorType(value.type)
    depth, panels = kind.shape[1 - across], kind.shape[across] // WIDTH
    # Where, in what is stored, the dimension lies that is cut into panels.
    dim = across if source == value else 1 - across
    groups, shape = ([[0], [1, 2]], [depth, panels, WIDTH]) if dim else ([[0, 1], [2]], [panels, WIDTH, depth])
    with _behind(value):
        cut = tensor.expand_shape(ir.RankedTensorType.get(shape, kind.element_type), source, groups, [], shape)
        empty = tensor.empty([panels, depth, WIDTH], kind.element_type)
        order = [1, 0, 2] if dim else [0, 2, 1]
        turned = linalg.transpose(cut, outs=[empty], permutation=order).results[0]
    return fusion_barrier(turned)


def _as_matrix(panels: ir.Value, type_: ir.Type) -> ir.Value:
    kind = ir.RankedTensorType(type_)
    rows, columns = kind.shape
    with _behind(panels):
        flat = ir.RankedTensorType.get([rows * columns], kind.element_type)
        row = tensor.collapse_shape(flat, panels, [[0, 1, 2]])
        return tensor.expand_shape(kind, row, [[0, 1]], [], [rows, columns])


def _behind(value: ir.Value) -> ir.InsertionPoint:
    """Right behind what makes a value."""
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner.operation)
