"""Lists of operands or results of several types, despite IRDL.

IRDL registers the dialect, and requires the values of a variadic operand to have the same type. An op such as
`dm.kernel` takes any types. Therefore IRDL sees `GROUPS` variadic operands instead of one, and while it verifies an op,
the op has the segment sizes that split its list into runs of equal types. Outside verification, in text and in memory,
no op has them, except after a verification failed half-way, until the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from dmc._mlir import ir
from dmc.dialect.rules import Violation

# Loading the dialect into a context for the first time takes about 5 ms for every 100.
GROUPS = 256


def cut(op: Any, kinds: Sequence[str]) -> None:
    """Gives `op` the segment sizes of its runs; `kinds` are among "operand" and "result"."""
    for kind in kinds:
        sizes = lengths(op, kind)
        sizes += [0] * (GROUPS - len(sizes))
        op.attributes[attribute_name(kind)] = ir.DenseI32ArrayAttr.get(sizes, context=op.context)


def lengths(op: Any, kind: str) -> list[int]:
    """The length of each run of operands or results of equal type. Raises Violation if there are too many runs."""
    types = (value.type for value in getattr(op, f"{kind}s"))
    found = [len(list(run)) for _, run in groupby(types)]
    if len(found) > GROUPS:
        raise Violation(f"has {len(found)} runs of {kind}s of equal type; the limit is {GROUPS}, so split it")
    return found


def join(op: Any, kinds: Sequence[str]) -> None:
    """Undoes `cut`."""
    for kind in kinds:
        name = attribute_name(kind)
        if name in op.attributes:
            del op.attributes[name]


def attribute_name(kind: str) -> str:
    """The attribute in which MLIR keeps the segment sizes of operands or results."""
    return f"{kind}SegmentSizes"


def irdl_fields(fields: Sequence[Any], mixed: Sequence[str]) -> Iterator[Any]:
    """The bindings' field definitions of an op as seen by IRDL; `mixed` are the fields of several types."""
    for each in fields:
        if each.name not in mixed:
            yield each
            continue
        for i in range(GROUPS):
            yield replace(each, name=f"{each.name}_{i}")
