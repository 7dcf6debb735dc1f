"""Concatenations of equal parts that IREE computes in one loop.

IREE copies each part in a dispatch of its own. A loop over the result, which chooses the part by a dimension that
counts them, is one dispatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dmc._mlir import arith, ir, linalg, tensor
from dmc.rewriting.passes import Pass
from dmc.walk import walk

# The loop reads an element of every part for each that it writes.
MOST_PARTS = 8


@dataclass(frozen=True)
class ConcatenateByLoops(Pass):
    """Turns concatenations of few equal parts, not along the outermost dimension, into loops.

    `concat dim(1) (a, b)` of two [M, N] becomes a [M, 2, N] whose element [m, p, n] is `p == 0 ? a[m, n] : b[m, n]`,
    and, as it lies in memory, the result. Where nothing is outside of the dimension, the parts are copied as they are.
    """

    name = "dm-concatenate-by-loops"

    def run(self, module: ir.Module) -> None:
        for op in [op for op in walk(module.operation) if op.name == "tensor.concat" and _is_of_equal_parts(op)]:
            with op.location, ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(_loop(op))
            op.erase()


def _is_of_equal_parts(op: ir.Operation) -> bool:
    first, *others = [value.type for value in op.operands]
    outside = prod(first.shape[: op.attributes["dim"].value])
    return outside > 1 and 0 < len(others) < MOST_PARTS and all(each == first for each in others)


def _loop(op: ir.Operation) -> ir.Value:
    dim, whole = op.attributes["dim"].value, op.results[0].type
    element, shape = whole.element_type, list(op.operands[0].type.shape)
    outside, inside = prod(shape[:dim]), prod(shape[dim:])
    parts = [_reshaped(value, [outside, inside]) for value in op.operands]
    result = tensor.empty([outside, len(parts), inside], element)
    loops = [ir.AffineDimExpr.get(number) for number in range(3)]
    read, written = (ir.AffineMap.get(3, 0, each) for each in ([loops[0], loops[2]], loops))
    generic = linalg.GenericOp(
        [result.type],
        parts,
        [result],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in (*[read] * len(parts), written)]),
        ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * 3),
    )
    block = generic.regions[0].blocks.append(*[element] * (len(parts) + 1))
    with ir.InsertionPoint(block):
        number = linalg.IndexOp(1).result
        chosen = block.arguments[len(parts) - 1]
        for part in reversed(range(len(parts) - 1)):
            is_here = arith.cmpi(arith.CmpIPredicate.eq, number, arith.constant(ir.IndexType.get(), part))
            chosen = arith.select(is_here, block.arguments[part], chosen)
        linalg.yield_([chosen])
    return _reshaped(generic.results[0], list(whole.shape))


def _reshaped(value: ir.Value, shape: list[int]) -> ir.Value:
    """The value with another shape, as it lies in memory: through one dimension."""
    given = value.type
    if list(given.shape) == shape:
        return value
    flat = ir.RankedTensorType.get([prod(shape)], given.element_type)
    if len(given.shape) > 1:
        value = tensor.collapse_shape(flat, value, [list(range(len(given.shape)))])
    if len(shape) == 1:
        return value
    target = ir.RankedTensorType.get(shape, given.element_type)
    return tensor.expand_shape(target, value, [list(range(len(shape)))], [], shape)
