"""Who computes what from what, among the operations of one block."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dmc._mlir import ir
from dmc.walk import reads

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast")


def outliving(
    sources: Collection[ir.Value], before: Sequence[ir.OpView], wanted: Collection[ir.Value]
) -> list[ir.Value]:
    """Those of `wanted` that are computed from `sources` by `before`, in order."""
    tainted = set(sources)
    found: list[ir.Value] = []
    for op in before:
        if any(value in tainted for value in reads(op)):
            tainted.update(op.operation.results)
            found += [result for result in op.operation.results if result in wanted]
    return found


def production_order(ops: Sequence[ir.OpView]) -> dict[ir.Value, int]:
    """For each result of `ops` where the kernel that gives it is likely to stand.

    An elementwise operation joins the kernel of what it reads, and a kernel stands where its first operation that is
    not elementwise stood.
    """
    order: dict[ir.Value, int] = {}
    for position, view in enumerate(ops):
        op = view.operation
        sources = [order[operand] for operand in op.operands if operand in order] if _is_elementwise(op) else []
        for result in op.results:
            order[result] = min(sources, default=position)
    return order


def _is_elementwise(op: ir.Operation) -> bool:
    if op.name == "linalg.generic":
        return all("parallel" in str(kind) for kind in op.attributes["iterator_types"])
    return op.name in _RESHAPES or op.name.partition(".")[0] in ("arith", "math")
