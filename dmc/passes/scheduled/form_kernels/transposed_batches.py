"""Transposed matrices of a batch, rewritten so that products can read them in place."""

from __future__ import annotations

from dmc._mlir import func, ir, linalg, tensor

_BATCH = "linalg.batch_matmul"


def join_batches_first(step: func.FuncOp) -> None:
    """`batch_matmul(collapse(transpose(x)))` becomes `batch_matmul(transpose(collapse(x)))`.

    The last two dimensions of `x: heads×a×b` in a batch are swapped; the dimensions before them are collapsed, which
    moves no element. After the reshape, the transposition is next to the product.
    """
    for view in list(step.entry_block.operations):
        if _is_batch_of_transposed(view.operation):
            _rewrite(view.operation)


def _is_batch_of_transposed(op: ir.Operation) -> bool:
    if op.name != "tensor.collapse_shape" or isinstance(op.operands[0].owner, ir.Block):
        return False
    uses = list(op.results[0].uses)
    if not uses or any(use.owner.operation.name != _BATCH or use.operand_number > 1 for use in uses):
        return False
    transpose = op.operands[0].owner.operation
    rank = op.operands[0].type.rank
    batch = list(range(rank - 2))
    return (
        transpose.name == "linalg.transpose"
        and list(ir.DenseI64ArrayAttr(transpose.attributes["permutation"])) == [*batch, rank - 1, rank - 2]
        and _groups(op) == [batch, [rank - 2], [rank - 1]]
    )


def _rewrite(op: ir.Operation) -> None:
    transpose = op.operands[0].owner.operation
    source = transpose.operands[0]
    element = source.type.element_type
    batch, rows, columns = op.results[0].type.shape
    with op.location, ir.InsertionPoint(op):
        joined = ir.RankedTensorType.get([batch, columns, rows], element)
        value = tensor.CollapseShapeOp(joined, source, _groups(op)).result
        empty = tensor.empty([batch, rows, columns], element)
    with transpose.location, ir.InsertionPoint(op):
        turned = linalg.transpose(value, outs=[empty], permutation=[0, 2, 1]).results[0]
    op.results[0].replace_all_uses_with(turned)
    op.erase()
    if not list(transpose.results[0].uses):
        transpose.erase()


def _groups(op: ir.Operation) -> list[list[int]]:
    return [[ir.IntegerAttr(each).value for each in group] for group in op.attributes["reassociation"]]
