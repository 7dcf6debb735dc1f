"""Constants among scalars."""

from __future__ import annotations

from dmc._mlir import ir


def constant_of(value: ir.Value) -> float | None:
    """The number that a scalar is, if it is a constant."""
    source = value.owner
    if not isinstance(source, ir.Operation | ir.OpView) or source.operation.name != "arith.constant":
        return None
    return ir.FloatAttr(source.operation.attributes["value"]).value
