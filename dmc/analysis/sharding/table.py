"""Decisions as a table of plain text."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir
from dmc.analysis.sharding.decisions import Decision

HEAD = ("operation", "result", "placement", "bytes in", "why")


def table(decisions: Sequence[Decision]) -> str:
    """One line per result of an operation that is split, or whose request was refused: its placement, and why.

    "bytes in" are moved by resharding the operands, over all ranks.
    """
    rows: list[tuple[str, ...]] = [HEAD]
    for decision in decisions:
        why = "; ".join(decision.choice.reasons)
        tensors = [result for result in decision.op.results if isinstance(result.type, ir.RankedTensorType)]
        for i, (result, placement) in enumerate(zip(tensors, decision.kept, strict=True)):
            if placement.axes or why:
                moved = str(decision.choice.bytes) if i == 0 else ""
                rows.append((name_of(decision.op), str(result.type), str(placement), moved, why))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def name_of(op: ir.Operation) -> str:
    """The operation's name, and the kind of a composite."""
    return f"{op.name} {ir.StringAttr(op.attributes['kind']).value}" if op.name == "dm.composite" else op.name
