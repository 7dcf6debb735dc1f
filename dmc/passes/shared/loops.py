"""Builders of `linalg.generic`, and copies of operations on other operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dmc._mlir import ir
from dmc.walk import walk

GENERIC, PARALLEL = "linalg.generic", "parallel"


def iterator_types(kinds: Sequence[str]) -> ir.Attribute:
    """The attribute for loops of these kinds: "parallel" or "reduction"."""
    return ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])


def indexing_maps(count: int, places: Sequence[Sequence[ir.AffineExpr]]) -> ir.Attribute:
    """The attribute for operands at these places of `count` loops."""
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get(count, 0, list(each))) for each in places])


def loops(
    operands: Sequence[ir.Value],
    places: Sequence[Sequence[ir.AffineExpr]],
    kinds: Sequence[str],
    body: Callable[..., ir.Value],
) -> ir.Operation:
    """A `linalg.generic` at the insertion point that writes its last operand, of loops of these kinds.

    places: of each operand's element in an iteration. body: computes the new element from the operands' elements.
    """
    attributes: dict[str, ir.Attribute] = {
        "indexing_maps": indexing_maps(len(kinds), places),
        "iterator_types": iterator_types(kinds),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands) - 1, 1]),
    }
    op = ir.Operation.create(GENERIC, [operands[-1].type], list(operands), attributes, regions=1)
    elements = [value.type.element_type for value in operands]
    block = op.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[body(*block.arguments)])
    return op


def scalar(name: str, *operands: ir.Value) -> ir.Value:
    """The operation `name` on scalars of one type, which its result has, too."""
    return ir.Operation.create(name, [operands[0].type], list(operands)).results[0]


def copy_with(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Copies `op` to the insertion point, mapping its operands by `values`, and adds its results to `values`."""
    copy = op.clone()
    for inner in walk(copy):
        for i, operand in enumerate(inner.operands):
            if operand in values:
                inner.operands[i] = values[operand]
    values.update(zip(op.results, copy.results, strict=True))
    return copy
