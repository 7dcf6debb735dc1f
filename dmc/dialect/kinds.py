"""Kinds of composites, and their traits."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.composites import Traits, traits_of_kind
from dmc.dialect._dm_gen import CompositeOp


def kind_of(op: ir.Operation | ir.OpView) -> str:
    """The kind of a composite; nothing of any other operation."""
    op = op.operation
    return op.attributes["kind"].value if op.name == CompositeOp.OPERATION_NAME else ""


def traits_of(op: ir.Operation | ir.OpView) -> Traits:
    """The traits of a composite; none of any other operation."""
    return traits_of_kind(kind_of(op))
