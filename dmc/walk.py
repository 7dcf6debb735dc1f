"""Walking IR."""

from __future__ import annotations

from collections.abc import Iterator

from dmc._mlir import ir


def walk(op: ir.Operation | ir.OpView) -> Iterator[ir.Operation]:
    """Yields `op` and every operation nested in it, parents first.

    Children are listed before their parent is yielded, so the operation just yielded may be moved, and it may be
    erased if nothing is nested in it.
    """
    operation = op.operation
    children = [child for region in operation.regions for block in region for child in block.operations]
    yield operation
    for child in children:
        yield from walk(child)


def reads(op: ir.Operation | ir.OpView) -> Iterator[ir.Value]:
    """The operands of the operation and of those nested in it."""
    return (operand for inner in walk(op) for operand in inner.operands)
