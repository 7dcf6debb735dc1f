"""The reads from memory of a step's operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dmc._mlir import ir
from dmc.analysis.kernels.graph import Graph, Kind, outer_reads
from dmc.analysis.kernels.shapes import PIECES, keeps_order
from dmc.analysis.storage.pieces import RESHAPES

ORDER, APART = "elements in another order", "read as a part, by index, or after a barrier"


class Read(NamedTuple):
    """A read of `value`: a value computed into memory, or, if only a part is read, the part; `base` is the whole.

    why_apart: what keeps the reader out of the producer's kernel: nothing, ORDER, which only some kernels cannot fuse,
    or APART.
    """

    base: ir.Value
    value: ir.Value
    why_apart: str


def memory_reads(graph: Graph, number: int) -> Iterator[Read]:
    """The reads of operation `number`, except constants, including those of rematerialised operands."""
    ways = graph.fact(_ways, number)
    for value, way in zip(graph.reads[number], ways, strict=True):
        kind = graph.kind_of(value)
        if kind in (Kind.SCALAR, Kind.INLINED):
            yield from (Read(base, base, APART) for base in _inlined(graph, value))
        elif kind is not Kind.CONSTANT:
            base, part, why = _through_views(graph, value)
            if graph.kind_of(base) is not Kind.CONSTANT:
                yield Read(base, part, way if way is APART else why or way)


def sources(graph: Graph, number: int) -> Iterator[int]:
    """The operations that compute or move the operands of operation `number`, through views, scalars and barriers."""
    pending, seen = list(graph.reads[number]), set[int]()
    while pending:
        maker = graph.made_by.get(pending.pop())
        if maker is None or maker in seen:
            continue
        seen.add(maker)
        if graph.kinds[maker] in (Kind.COMPUTE, Kind.MOVEMENT):
            yield maker
        else:
            pending += graph.reads[maker]


def _ways(op: ir.Operation) -> list[str]:
    """How an operation reads each value that it uses from outside: as it was written, in another ORDER, or APART."""
    operands = list(op.operands)
    ways: list[str] = []
    for i, value in enumerate(outer_reads(op)):
        is_apart = op.name not in PIECES and i >= len(operands) - len(op.results)
        ways.append(APART if is_apart else "" if _keeps_order(op, value) else ORDER)
    return ways


def _keeps_order(op: ir.Operation, value: ir.Value) -> bool:
    if op.name in PIECES:
        return False
    return all(keeps_order(op, i) for i, operand in enumerate(op.operands) if operand == value)


def _through_views(graph: Graph, value: ir.Value) -> tuple[ir.Value, ir.Value, str]:
    base = part = value
    why = ""
    while graph.kind_of(base) in (Kind.VIEW, Kind.BARRIER):
        op = graph.ops[graph.made_by[base]]
        why = why if op.name in RESHAPES else APART
        base = op.operands[0]
        part = part if why else base
    return base, part, why


def _inlined(graph: Graph, value: ir.Value) -> Iterator[ir.Value]:
    pending = [value]
    while pending:
        value = pending.pop()
        kind = graph.kind_of(value)
        if kind in (Kind.SCALAR, Kind.INLINED, Kind.VIEW, Kind.BARRIER):
            pending += graph.reads[graph.made_by[value]]
        elif kind is not Kind.CONSTANT:
            yield value
