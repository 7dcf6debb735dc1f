"""Operands of matrix products in panels: strips as wide as the registers, each of which lies in one piece.

A product goes through the whole depth for every small tile of its result. In a matrix as PyTorch stores it, neighbours
along the depth are a row apart: each step touches another cache line and often another page, and rows whose length is a
power of two share a few sets of the cache. In panels, what follows in the depth follows in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import arith, ir, linalg, tensor
from dmc.analysis.kernels.panels import WIDTH, panels_of
from dmc.dialect.iree import fusion_barrier
from dmc.rewriting.passes import Pass
from dmc.step_function import functions, symbol
from dmc.walk import walk

# On a product: its right matrix is said to be a matrix, but lies in panels.
MARK = "panels"
# Rows and columns of the result: with fewer, panels are read too few times. More rows where no operand is transposed.
_ROWS, _COLUMNS, _ROWS_PLAIN = 64, 64, 512
# Sides that are no multiple of the width are padded from this length on: by at most 2 %.
_PADDED = 50 * WIDTH


@dataclass(frozen=True)
class PackPanels(Pass):
    """Puts the right operands of large f32 products into panels, in a loop of their own, where that pays.

    without: functions that are left as they are.

    `matmul(x, w)` becomes `matmul(x, as_matrix(barrier(panels(w)))) {panels = true}`. What the product then reads is
    only called a matrix, so that IREE joins it with the loops behind it: `with_panel_loops` tells what it is. A left
    operand that is a transpose is transposed in memory, too. A long side that is no multiple of a panel's width is
    padded with zeros; what is read of the product is a slice. A product of any size whose right operand lies in panels
    already (`dm-share-panels`) reads these.
    """

    name = "dm-pack-panels"
    without: tuple[str, ...] = ()

    def run(self, module: ir.Module) -> None:
        packed = [each for each in functions(module) if symbol(each) not in self.without]
        products = [op for function in packed for op in walk(function) if _is_product(op)]
        for op in [op for op in products if panels_of(op.operands[1]) is not None]:
            with op.location:
                op.operands[1] = _unpacked(op.operands[1])
                op.attributes[MARK] = ir.BoolAttr.get(True)
        for op in [op for op in products if MARK not in op.attributes and _pays(op)]:
            with op.location:
                op.operands[0] = _left(op.operands[0])
                op.operands[1] = _right(op.operands[1])
                op.attributes[MARK] = ir.BoolAttr.get(True)
                _slice_behind(op)


def _is_product(op: ir.Operation) -> bool:
    if op.name != "linalg.matmul":
        return False
    return all(isinstance(ir.RankedTensorType(each.type).element_type, ir.F32Type) for each in op.operands)


def _pays(op: ir.Operation) -> bool:
    """Whether a product is large enough, with sides that are multiples of the width or can be padded."""
    rows, columns = ir.RankedTensorType(op.results[0].type).shape
    is_plain = all(_source(each) == each for each in op.operands[:2])
    if rows < (_ROWS_PLAIN if is_plain else _ROWS) or columns < _COLUMNS:
        return False
    start = op.operands[2].owner
    is_sum = isinstance(start, ir.Block) or start.name != "linalg.fill"
    pads_left = not is_sum and _source(op.operands[0]) != op.operands[0]
    return _fits(rows, pads_left) and _fits(columns, not is_sum)


def _fits(size: int, pads: bool) -> bool:
    return size % WIDTH == 0 or (pads and size >= _PADDED)


def _source(value: ir.Value) -> ir.Value:
    """The matrix that this one is the transpose of; itself where it is not a transpose."""
    maker = value.owner
    if isinstance(maker, ir.Operation | ir.OpView) and maker.operation.name == "linalg.transpose":
        return maker.operation.operands[0]
    return value


def _slice_behind(op: ir.Operation) -> None:
    """Lets a product of padded operands have a padded result, of which a slice is read instead."""
    result = op.results[0]
    type_ = ir.RankedTensorType(result.type)
    shape = [op.operands[0].type.shape[0], op.operands[1].type.shape[1]]
    if shape == list(type_.shape):
        return
    with ir.InsertionPoint(op):
        zero = op.operands[2].owner.operation.operands[0]
        op.operands[2] = linalg.fill(zero, outs=[tensor.empty(shape, type_.element_type)])
    result.set_type(ir.RankedTensorType.get(shape, type_.element_type))
    with _behind(result):
        part = tensor.ExtractSliceOp(type_, result, [], [], [], [0, 0], list(type_.shape), [1, 1])
    result.replace_all_uses_except(part.result, [part.operation])


def _left(value: ir.Value) -> ir.Value:
    """The left operand of a product: where it is a transpose, in memory, with as many rows as panels have."""
    if _source(value) == value:
        return value
    with _behind(value):
        return fusion_barrier(value if value.type.shape[0] % WIDTH == 0 else _in_zeros(value, 0))


def _right(value: ir.Value) -> ir.Value:
    """The panels of the right operand of a product, as a matrix. IREE joins equal panels of several products."""
    source = _source(value)
    # Where, in what is stored, the columns lie.
    dim = 1 if source == value else 0
    depth, columns = value.type.shape
    whole = columns - columns % WIDTH
    with _behind(value):
        panels = _panels(source if whole == columns else _part(source, dim, 0, whole), dim)
        if whole < columns:
            panels = _joined(panels, _panels(_in_zeros(_part(source, dim, whole, columns - whole), dim), dim))
        return _as_matrix(fusion_barrier(panels), [depth, panels.type.shape[0] * WIDTH])


def in_panels(matrix: ir.Value) -> ir.Value:
    """The panels of a matrix, whose columns fill them, at the insertion point."""
    source = _source(matrix)
    return _panels(source, 1 if source == matrix else 0)


def _panels(source: ir.Value, dim: int) -> ir.Value:
    """A matrix whose dimension `dim` is cut into panels: panel, depth, place in the panel."""
    kind = ir.RankedTensorType(source.type)
    depth, panels = kind.shape[1 - dim], kind.shape[dim] // WIDTH
    groups, shape = ([[0], [1, 2]], [depth, panels, WIDTH]) if dim else ([[0, 1], [2]], [panels, WIDTH, depth])
    cut = tensor.expand_shape(ir.RankedTensorType.get(shape, kind.element_type), source, groups, [], shape)
    empty = tensor.empty([panels, depth, WIDTH], kind.element_type)
    order = [1, 0, 2] if dim else [0, 2, 1]
    return linalg.transpose(cut, outs=[empty], permutation=order).results[0]


def _part(value: ir.Value, dim: int, start: int, size: int) -> ir.Value:
    """So many rows or columns of a matrix."""
    kind = ir.RankedTensorType(value.type)
    sizes = [size if i == dim else extent for i, extent in enumerate(kind.shape)]
    offsets = [start if i == dim else 0 for i in range(2)]
    part = ir.RankedTensorType.get(sizes, kind.element_type)
    return tensor.ExtractSliceOp(part, value, [], [], [], offsets, sizes, [1, 1]).result


def _in_zeros(value: ir.Value, dim: int) -> ir.Value:
    """A matrix padded with zeros to a multiple of a panel's width."""
    kind = ir.RankedTensorType(value.type)
    shape = [-(-extent // WIDTH) * WIDTH if i == dim else extent for i, extent in enumerate(kind.shape)]
    zero = arith.constant(kind.element_type, 0.0)
    zeros = linalg.fill(zero, outs=[tensor.empty(shape, kind.element_type)])
    return _inserted(value, zeros, 0)


def _joined(first: ir.Value, second: ir.Value) -> ir.Value:
    """Panels, one after the other."""
    kind = ir.RankedTensorType(first.type)
    count, *shape = kind.shape
    empty = tensor.empty([count + second.type.shape[0], *shape], kind.element_type)
    return _inserted(second, _inserted(first, empty, 0), count)


def _inserted(value: ir.Value, into: ir.Value, start: int) -> ir.Value:
    sizes = list(value.type.shape)
    offsets = [start, *[0] * (len(sizes) - 1)]
    return tensor.InsertSliceOp(value, into, [], [], [], offsets, sizes, [1] * len(sizes)).result


def _unpacked(matrix: ir.Value) -> ir.Value:
    """The panels of which a matrix is made, as a matrix."""
    panels = panels_of(matrix)
    assert panels is not None, "it is not made of panels"
    with _behind(matrix):
        return _as_matrix(panels, list(matrix.type.shape))


def _as_matrix(panels: ir.Value, shape: list[int]) -> ir.Value:
    kind = ir.RankedTensorType(panels.type)
    row = tensor.collapse_shape(ir.RankedTensorType.get([shape[0] * shape[1]], kind.element_type), panels, [[0, 1, 2]])
    return tensor.expand_shape(ir.RankedTensorType.get(shape, kind.element_type), row, [[0, 1]], [], shape)


def _behind(value: ir.Value) -> ir.InsertionPoint:
    """Right behind what makes a value."""
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner.operation)
