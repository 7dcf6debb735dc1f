"""Tables on stderr in which a pass reports what it did, and what stopped it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.labels import kernel_label_of, label_of, place_of
from dmc.program.labels import short

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.,])")


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints the rows below their header, in columns of equal width; "none" if there are none."""
    rows = rows or [("none", *[""] * (len(head) - 1))]
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=sys.stderr)


def starred(label: str) -> str:
    """A module path with "*" for the numbers of layers."""
    return _NUMBER.sub("*", label)


def named(op: ir.Operation) -> str:
    """The operation in readable form: its name, and what it carries or where it comes from."""
    view = op.opview
    if isinstance(view, dm.StartOp):
        return f"start of {named(dm.movement_of(view).operation)}"
    if isinstance(view, dm.WaitOp) and not isinstance(view.handle.owner, ir.Block):
        return f"wait for {named(dm.movement_of(view.handle.owner.opview).operation)}"
    what = f"@{view.body.value}" if isinstance(view, dm.KernelOp) else op.name
    where = short(kernel_label_of(op) or label_of(op).tensor) or place_of(op.location)
    return f"{what} ({where})" if where else what
