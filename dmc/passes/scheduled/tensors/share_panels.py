"""dm-share-panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc._mlir import ir, linalg, tensor
from dmc.analysis.kernels.inlined import FEW_ROWS, MANY
from dmc.analysis.kernels.panels import UNPACKED, WIDTH
from dmc.dialect.iree import fusion_barrier
from dmc.lowering.kernels.rewrites.pack_panels import in_panels
from dmc.lowering.kernels.rewrites.split_deep_products import DEEPEST
from dmc.passes.base import Pass
from dmc.passes.shared.reshapes import COLLAPSE, reshape
from dmc.step_function import find_step

# With fewer columns there are too few panels for all cores.
_COLUMNS = 64


@dataclass(frozen=True)
class SharePanels(Pass):
    """Puts a matrix that many products of few rows read, as the steps of a loop over time do, into panels once.

    `matmul(x, w)`, four times or more, becomes `matmul(x, matrix(p))` of one `p = barrier(panels(w))`. Panels are
    strips of 16 columns, each in one piece of memory. `matrix` puts their elements in a matrix's order, as a part of
    every kernel that reads it: the product then reads the panels (`dm-pack-panels`). Only f32, and on a CPU.
    """

    name = "dm-share-panels"

    def run(self, module: ir.Module) -> None:
        readers: dict[ir.Value, list[ir.Operation]] = {}
        for op in [view.operation for view in find_step(module).entry_block.operations]:
            if _is_of_few_rows(op):
                readers.setdefault(op.operands[1], []).append(op)
        for matrix, products in readers.items():
            if len(products) >= MANY:
                _share(matrix, products)


def _is_of_few_rows(op: ir.Operation) -> bool:
    """Whether an operation is a product of few rows, in one piece, whose columns fill panels."""
    if op.name != "linalg.matmul":
        return False
    if not all(isinstance(ir.RankedTensorType(each.type).element_type, ir.F32Type) for each in op.operands):
        return False
    rows, columns = op.results[0].type.shape
    is_filled = columns >= _COLUMNS and columns % WIDTH == 0
    return rows < FEW_ROWS and is_filled and op.operands[0].type.shape[1] <= DEEPEST


def _share(matrix: ir.Value, products: Sequence[ir.Operation]) -> None:
    """Lets products, in their order, read a matrix from panels that are made before the first."""
    depth, columns = matrix.type.shape
    element = matrix.type.element_type
    with products[0].location, ir.InsertionPoint(products[0]):
        panels = fusion_barrier(in_panels(matrix))
        empty = tensor.empty([depth, columns // WIDTH, WIDTH], element)
        rows = linalg.transpose(panels, outs=[empty], permutation=UNPACKED).results[0]
        read = reshape(COLLAPSE, rows, matrix.type, [[0], [1, 2]])
    for op in products:
        op.operands[1] = read
