"""Casts and movements of elements that every kernel that reads them computes itself, and none writes to memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, WIDEN, is_cast
from dmc.analysis.kernels.contractions import is_convolution
from dmc.analysis.kernels.panels import is_unpacking, panels_of
from dmc.analysis.storage.pieces import RESHAPES, is_view
from dmc.walk import is_parallel

_TRANSPOSE, _GENERIC = "linalg.transpose", "linalg.generic"
_PAD, _EXTRACT, _INSERT = "tensor.pad", "tensor.extract_slice", "tensor.insert_slice"
_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul")
# So many products, of fewer rows each, are worth a copy of the matrix on their right, transposed or in panels: in each
# of them IREE reads it across its rows.
MANY, FEW_ROWS = 4, 64


@dataclass
class Inlined:
    """own: whether dmc's own code computes the kernels. ops: those found, each after its readers."""

    own: bool
    ops: set[ir.Operation] = field(default_factory=set)

    def takes(self, op: ir.Operation) -> bool:
        """Whether an operation is part of each kernel that reads it."""
        is_inlined = self._is_for_products(op) or (not self.own and _is_for_panels(op))
        if self.own and not is_inlined:
            is_inlined = self._is_for_convolutions(op) or self._is_for_windows(op) or _is_for_casts(op)
        if is_inlined:
            self.ops.add(op)
        return is_inlined

    def _is_for_products(self, op: ir.Operation) -> bool:
        """Whether all its readers are matrix products or convolutions, or part of these, which can read its operand
        instead."""
        if op.name != _TRANSPOSE and not is_cast(op, WIDEN):
            return False
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"])) if op.name == _TRANSPOSE else None
        products = _PRODUCTS if order in (None, [0, 2, 1]) else _PRODUCTS[:1]
        # A matrix that is cast on its way can only be a factor of `linalg.matmul`.
        is_through = self.own and (order in (None, [0, 2, 1]) or len(op.results[0].type.shape) == 2)
        uses = list(op.results[0].uses)
        if not self.own and op.name == _TRANSPOSE and _is_read_often(uses):
            return False
        return bool(uses) and all(
            (use.owner.operation.name in products and use.operand_number < 2)
            or (is_through and use.owner.operation in self.ops)
            for use in uses
        )

    def _is_for_convolutions(self, op: ir.Operation) -> bool:
        """Whether all its readers are convolutions, or part of these: filters with rows and columns exchanged, and
        images from which pixels are taken away, or that zeros surround or separate."""
        is_turned = op.name == _TRANSPOSE and list(ir.DenseI64ArrayAttr(op.attributes["permutation"])) == [1, 0, 2, 3]
        if not is_turned and (op.name not in (_PAD, _EXTRACT, _INSERT) or len(op.results[0].type.shape) != 4):
            return False
        uses = list(_uses(op.results[0]))
        return bool(uses) and all(
            (is_convolution(reader) and number < 2) or (not is_turned and reader in self.ops and number == 0)
            for reader, number in uses
        )

    def _is_for_windows(self, op: ir.Operation) -> bool:
        """Whether elementwise computation reads it, and it is a part of an image with pixels around it or repeated, as
        the windows of a pooling are: what is moved is larger than what it is moved from.
        """
        uses = list(_uses(op.results[0])) if is_of_windows(op) else []
        return bool(uses) and all(reader in self.ops or _is_elementwise(reader) for reader, _ in uses)


def _is_for_casts(op: ir.Operation) -> bool:
    """Whether it pads what is only narrowed, as the weight of padded classes is."""
    uses = list(op.results[0].uses) if op.name == _PAD else []
    return bool(uses) and all(is_cast(use.owner.operation, NARROW) for use in uses)


def _is_for_panels(op: ir.Operation) -> bool:
    """Whether it takes panels apart for products, which can read the panels instead."""
    uses = list(_uses(op.results[0])) if is_unpacking(op) else []
    return bool(uses) and all(
        reader.name == "linalg.matmul" and number == 1 and panels_of(reader.operands[1]) is not None
        for reader, number in uses
    )


def _is_read_often(uses: Sequence[ir.OpOperand]) -> bool:
    """Whether many products of few rows, such as the steps of a loop over time, have this matrix on their right."""
    products = [use.owner.operation for use in uses if use.operand_number == 1 and use.owner.name in _PRODUCTS]
    return sum(op.operands[0].type.shape[-2] < FEW_ROWS for op in products) >= MANY


def _uses(value: ir.Value) -> Iterator[tuple[ir.Operation, int]]:
    """The operations that read a value, through views, and the number of the operand."""
    for use in value.uses:
        reader = use.owner.operation
        if reader.name.startswith("tensor.") and is_view(reader):
            yield from _uses(reader.results[0])
        else:
            yield reader, use.operand_number


def is_of_windows(op: ir.Operation) -> bool:
    """Whether an operation pads or repeats an image, or takes a part of one that was padded or repeated."""
    if not isinstance(op.results[0].type, ir.RankedTensorType) or len(op.results[0].type.shape) < 4:
        return False
    while op.name == _EXTRACT or op.name in RESHAPES:
        owner = op.operands[0].owner
        if isinstance(owner, ir.Block):
            return False
        op = owner.operation
    return op.name == _PAD or _repeats(op)


def _repeats(op: ir.Operation) -> bool:
    """Whether an operation only writes each element of its operand several times."""
    if op.name != _GENERIC or len(op.operands) != 2 or not is_parallel(op):
        return False
    is_larger = len(op.results[0].type.shape) > len(op.operands[0].type.shape) >= 4
    return is_larger and len(op.regions[0].blocks[0].operations) == 1


def _is_elementwise(op: ir.Operation) -> bool:
    return op.name == _GENERIC and is_parallel(op)
