"""Walking IR, and reading it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dmc._mlir import ir
from dmc.memo import once

_LOOP_KIND = re.compile(r"iterator_type<(\w+)>")


def walk(op: ir.Operation | ir.OpView) -> Iterator[ir.Operation]:
    """Yields `op` and every operation nested in it, parents first.

    Children are listed before their parent is yielded, so the operation just yielded may be moved, and it may be
    erased if nothing is nested in it.
    """
    pending = [op.operation]
    while pending:
        operation = pending.pop()
        # Most operations have no regions, and recursion would pass each through a generator for every level above it.
        regions = operation.regions
        if not len(regions):
            yield operation
            continue
        children = [child.operation for region in regions for block in region for child in block.operations]
        yield operation
        pending += reversed(children)


def listed(op: ir.Operation | ir.OpView) -> list[ir.Operation]:
    """What `walk` yields, in half the time, all before anything is done with it."""
    found: list[ir.Operation] = []
    advance = ir.WalkResult.ADVANCE

    def see(each: ir.Operation) -> ir.WalkResult:
        found.append(each)
        return advance

    op.operation.walk(see, ir.WalkOrder.PRE_ORDER)
    return found


def terminator_of(block: ir.Block) -> ir.Operation:
    """The last operation of a block; its operands are what leaves the block."""
    return block.operations[len(block.operations) - 1].operation


def loop_kinds(op: ir.Operation) -> list[str]:
    """The kinds of the loops of a `linalg.generic`: "parallel" or "reduction"."""
    return list(once(_kinds, op.attributes["iterator_types"]))


def _kinds(iterator_types: ir.Attribute) -> tuple[str, ...]:
    # To print all of them takes as long as to print one.
    return tuple(_LOOP_KIND.findall(str(iterator_types)))


def is_parallel(op: ir.Operation) -> bool:
    """Whether every loop of a `linalg.generic` is parallel."""
    return all(kind == "parallel" for kind in loop_kinds(op))


def reads(op: ir.Operation | ir.OpView) -> Iterator[ir.Value]:
    """The operands of the operation and of those nested in it."""
    if not len(op.operation.regions):
        return iter(op.operation.operands)
    return (operand for inner in walk(op) for operand in inner.operands)
