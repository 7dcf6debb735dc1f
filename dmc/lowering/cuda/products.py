"""Bodies that are just a matrix product: those that cuBLASLt computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dmc._mlir import func, ir
from dmc.analysis.kernels.casts import NARROW, WIDEN, is_cast
from dmc.dialect.plan import type_bytes
from dmc.dtypes import FACTORS
from dmc.program.code import Matrix, Place, Product

# NVIDIA's recommendation for Hopper (cuBLAS documentation, "cublasSetWorkspace").
WORKSPACE = 32 << 20
_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul")
_SILENT = ("arith.constant", "tensor.empty", "linalg.fill", "func.return")


@dataclass(frozen=True)
class _Operand:
    """An argument of the function, by number, as operand of the product."""

    number: int
    transposed: bool


def product_of(function: func.FuncOp) -> Product | None:
    """The product that a body computes: of its arguments, possibly transposed or widened, its result possibly
    narrowed."""
    (block,) = function.body.blocks
    ops = [view.operation for view in block.operations]
    products = [op for op in ops if op.name in _PRODUCTS]
    if len(products) != 1 or len(function.type.results) != 1:
        return None
    (product,) = products
    operands = [_operand(value, block) for value in product.operands[:2]]
    if None in operands or not _starts_at_zero(product) or not _is_result(ops[-1].operands[0], product):
        return None
    on_the_way = {op for value in product.operands[:2] for op in _makers(value)} | set(_makers(ops[-1].operands[0]))
    if any(op.name not in _SILENT and op != product and op not in on_the_way for op in ops):
        return None
    left, right = (_matrix(each, function) for each in operands if each is not None)
    result = _stored("write", 0, function.type.results[0])
    accumulates_as = str(product.results[0].type.element_type)
    if left is None or right is None or result is None or accumulates_as != "f32" or left.dtype != right.dtype:
        return None
    # The library narrows only to the type of the operands.
    if result.dtype not in ("f32", left.dtype):
        return None
    return Product(left, right, result, Place("scratch", 0, 0, WORKSPACE))


def _operand(value: ir.Value, block: ir.Block) -> _Operand | None:
    transposed = False
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation if hasattr(value.owner, "operation") else value.owner
        if op.name == "linalg.transpose":
            permutation = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
            if permutation[-2:] != [len(permutation) - 1, len(permutation) - 2] or permutation[:-2] not in ([], [0]):
                return None
            transposed = not transposed
        elif not is_cast(op, WIDEN):
            return None
        value = op.operands[0]
    return _Operand(ir.BlockArgument(value).arg_number, transposed) if value.owner == block else None


def _makers(value: ir.Value) -> list[ir.Operation]:
    """The operations between an argument, or the product, and a value."""
    found: list[ir.Operation] = []
    while not isinstance(value.owner, ir.Block) and value.owner.name not in _PRODUCTS:
        found.append(value.owner.operation if hasattr(value.owner, "operation") else value.owner)
        value = found[-1].operands[0]
    return found


def _is_result(value: ir.Value, product: ir.Operation) -> bool:
    if value == product.results[0]:
        return True
    op = value.owner
    return not isinstance(op, ir.Block) and is_cast(op, NARROW) and op.operands[0] == product.results[0]


def _starts_at_zero(product: ir.Operation) -> bool:
    fill = product.operands[2].owner
    if isinstance(fill, ir.Block) or fill.name != "linalg.fill":
        return False
    constant = fill.operands[0].owner
    if isinstance(constant, ir.Block) or constant.name != "arith.constant":
        return False
    return ir.FloatAttr(constant.attributes["value"]).value == 0.0


def _matrix(operand: _Operand, function: func.FuncOp) -> Matrix | None:
    stored = _stored("read", operand.number, function.type.inputs[operand.number])
    if stored is None or not operand.transposed:
        return stored
    return Matrix(stored.place, stored.dtype, stored.batch, stored.rows, stored.columns, transposed=True)


def _stored(role: Literal["read", "write"], number: int, type_: ir.Type) -> Matrix | None:
    if str(type_.element_type) not in FACTORS or len(type_.shape) not in (2, 3):
        return None
    batch, rows, columns = (1, *type_.shape)[-3:]
    place = Place(role, number, 0, type_bytes(type_))
    return Matrix(place, FACTORS[str(type_.element_type)], batch, rows, columns)
