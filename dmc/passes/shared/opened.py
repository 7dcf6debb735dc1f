"""Composites replaced by their decompositions."""

from __future__ import annotations

from collections.abc import Collection

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.passes.base import NESTED, run_passes
from dmc.walk import walk


def is_composite(op: ir.Operation) -> bool:
    """Whether an operation is a `dm.composite`."""
    return op.name == dm.CompositeOp.OPERATION_NAME


def decomposition(op: ir.Operation) -> str:
    """The function that a composite names."""
    return ir.FlatSymbolRefAttr(op.attributes["decomposition"]).value


def open_composites(module: ir.Module, step: func.FuncOp, names: Collection[str]) -> None:
    """Inlines these decompositions wherever composites in `step` name them."""
    for op in [op for op in walk(step) if is_composite(op) and decomposition(op) in names]:
        types = [value.type for value in op.results]
        call = func.CallOp(
            types, op.attributes["decomposition"], list(op.operands), loc=op.location, ip=ir.InsertionPoint(op)
        )
        for old, new in zip(op.results, call.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
    run_passes(module, ("inline{default-pipeline=}",), NESTED)
