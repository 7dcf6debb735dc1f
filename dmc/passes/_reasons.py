"""Tables on stderr in which a pass says what it did, and why it did no more."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dmc._mlir import ir
from dmc.dialect.labels import label_of, place_of


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints the rows below their head, in columns of equal width."""
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=sys.stderr)


def named(op: ir.Operation) -> str:
    """The operation for people: its name, what it carries or where it comes from."""
    what = label_of(op).tensor or place_of(op.location)
    return f"{op.name} ({what})" if what else op.name
