"""The loops of any operation: one table per dialect; whole for unknown operations."""

from __future__ import annotations

from collections.abc import Iterator

from dmc._mlir import ir
from dmc.analysis.loops.composites import composite_loops
from dmc.analysis.loops.linalg import linalg_loops
from dmc.analysis.loops.loops import Loops, whole
from dmc.analysis.loops.tensors import tensor_loops
from dmc.errors import DmcError
from dmc.walk import walk

COMPOSITE = "dm.composite"


def loops_of(op: ir.Operation) -> Loops:
    """The loops of `op`. Raises DmcError if one of its tensors has no static shape."""
    for value in (*op.operands, *op.results):
        if isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape:
            raise DmcError(op, f"{value.type} has no static shape", "a step is compiled for one shape")
    rules = {"linalg": linalg_loops, "dm": composite_loops}
    rule = rules.get(op.name.partition(".")[0], tensor_loops)
    loops = rule(op) if op.name == COMPOSITE or rule is not composite_loops else None
    return loops or whole(
        [_rank(value) for value in op.operands], [_rank(value) or 0 for value in op.results], _why(op)
    )


def captured(op: ir.Operation) -> Iterator[tuple[ir.Operation, int]]:
    """Every use, as operation and operand index, in a region of `op` of a tensor from outside it."""
    nested = walk(op)
    next(nested)  # The operation itself.
    for inner in nested:
        for i, operand in enumerate(inner.operands):
            # The bodies of most operations compute with scalars.
            if isinstance(operand.type, ir.RankedTensorType) and not _is_within(_owner(operand), op):
                yield inner, i


def _owner(value: ir.Value) -> ir.Operation:
    """The operation that makes a value, or in whose region it is an argument."""
    owner = value.owner
    return owner.owner.operation if isinstance(owner, ir.Block) else owner.operation


def _is_within(op: ir.Operation, outer: ir.Operation) -> bool:
    current: ir.Operation | None = op
    while current is not None and current != outer:
        current = None if current.parent is None else current.parent.operation
    return current is not None


def _rank(value: ir.Value) -> int | None:
    return value.type.rank if isinstance(value.type, ir.RankedTensorType) else None


def _why(op: ir.Operation) -> str:
    if op.name == COMPOSITE:
        return f"no rule splits {ir.StringAttr(op.attributes['kind']).value} with these parameters"
    return f"no rule splits {op.name}"
