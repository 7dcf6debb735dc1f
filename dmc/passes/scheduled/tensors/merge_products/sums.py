"""Products that are added up: one product with a longer sum."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, WIDEN, is_cast
from dmc.analysis.loops.splats import is_zero
from dmc.analysis.storage.pieces import RESHAPES
from dmc.passes.scheduled.tensors.merge_products.chains import is_elementwise, only_reader


def terms_of(products: Sequence[ir.Operation]) -> tuple[ir.Value, ...] | None:
    """The terms of one sum that the products are, reshaped and cast in the same way; None if they are not added up."""
    paths = [_path(product.results[0]) for product in products]
    terms = tuple(path[-1] for path in paths)
    totals = {_total(term) for term in terms}
    is_alike = len({tuple(str(value.type.element_type) for value in path) for path in paths}) == 1
    are_added = len(totals) == 1 and not totals & set(terms)
    return terms if is_alike and are_added and all(is_zero(product.operands[2]) for product in products) else None


def leave_out(term: ir.Value) -> None:
    """Leaves a term out of the sum."""
    add = only_reader(term)
    assert add is not None
    left, right = add.operands[:2]
    add.results[0].replace_all_uses_with(right if left == term else left)
    add.erase()


def _path(value: ir.Value) -> list[ir.Value]:
    """A value, and what it becomes by reshapes and casts."""
    path = [value]
    while (op := only_reader(path[-1])) is not None and (
        op.name in RESHAPES or is_cast(op, WIDEN) or is_cast(op, NARROW)
    ):
        path.append(op.results[0])
    return path


def _total(value: ir.Value) -> ir.Value:
    """The sum that a value is a term of, the outermost that nothing else reads a part of."""
    while (op := only_reader(value)) is not None and _is_sum(op):
        value = op.results[0]
    return value


def _is_sum(op: ir.Operation) -> bool:
    """Whether an operation adds two tensors of the same shape, elementwise."""
    if not is_elementwise(op) or len(op.operands) != 3 or len({str(value.type) for value in op.operands}) > 1:
        return False
    if len({str(each) for each in op.attributes["indexing_maps"]}) > 1:
        return False
    *body, result = [view.operation for view in op.regions[0].blocks[0].operations]
    added = [*op.regions[0].blocks[0].arguments][:2]
    return (
        [each.name for each in body] == ["arith.addf"]
        and [*body[0].operands] == added
        and ([*result.operands] == [*body[0].results])
    )
