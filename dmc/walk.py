"""Walking IR."""

from __future__ import annotations

from collections.abc import Iterator

from dmc._mlir import ir


def walk(op: ir.Operation | ir.OpView) -> Iterator[ir.Operation]:
    """Yields `op` and every operation nested in it, parents first.

    Children are listed before they are visited, so the operation just yielded may be erased or moved.
    """
    yield op.operation
    for region in op.operation.regions:
        for block in region:
            for child in list(block.operations):
                yield from walk(child)
