"""Properties of a region's operations: maps, loops, and dependences in a body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmc._mlir import ir, linalg
from dmc.kernels.generated.index import Index, constant
from dmc.kernels.generated.value import Declined

Places = tuple[Index, ...]


def scalars(value: Any) -> list[Any]:
    """The scalar operands of a scalar's producer."""
    return [each for each in value.owner.operands if not isinstance(each.type, ir.RankedTensorType)]


def maps_of(op: Any) -> list[Any]:
    """The indexing maps of a `linalg` operation."""
    return [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op) or ()]


def is_parallel(op: Any) -> bool:
    """Whether the iterations of a generic are independent."""
    return not any("reduction" in str(each) for each in op.attributes["iterator_types"])


def at(each: Any, loops: Sequence[Index]) -> Places:
    """The result of a map for one iteration."""
    return tuple(_evaluate(expression, loops) for expression in each.results)


def _evaluate(expression: Any, loops: Sequence[Index]) -> Index:
    match expression:
        case ir.AffineDimExpr():
            return loops[expression.position]
        case ir.AffineConstantExpr():
            return constant(expression.value)
        case ir.AffineAddExpr():
            return _evaluate(expression.lhs, loops) + _evaluate(expression.rhs, loops)
        case ir.AffineMulExpr():
            first, second = (_evaluate(each, loops) for each in (expression.lhs, expression.rhs))
            return first * second.constant if not second.terms else second * first.constant
        case ir.AffineFloorDivExpr():
            return _evaluate(expression.lhs, loops) // expression.rhs.value
        case ir.AffineModExpr():
            return _evaluate(expression.lhs, loops) % expression.rhs.value
        case _:
            raise Declined(f"the indexing expression {expression}")


def slice_of(wanted: Any, body: Sequence[Any]) -> dict[Any, None]:
    """The values on which `wanted`, a value of this body, depends, including itself."""
    needed = {wanted: None}
    for op in reversed(body):
        if len(op.results) and op.results[0] in needed:
            needed.update(dict.fromkeys(op.operands))
    return needed


def dims_in(each: Any) -> list[int]:
    """The loops in results of a map that are plain loops."""
    return [place.position for place in each.results if isinstance(place, ir.AffineDimExpr)]


def dims_used(each: Any) -> set[int]:
    """The loops on which any result of a map depends."""
    return {dim for result in each.results for dim in _dims_of(result)}


def _dims_of(expression: Any) -> set[int]:
    if isinstance(expression, ir.AffineDimExpr):
        return {expression.position}
    if isinstance(expression, ir.AffineConstantExpr):
        return set()
    return _dims_of(expression.lhs) | _dims_of(expression.rhs)
