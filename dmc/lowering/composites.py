"""Composites as what they mean: their decompositions, in place."""

from __future__ import annotations

from dmc._mlir import func, ir, passmanager
from dmc.dialect import CompositeOp
from dmc.walk import walk


def call_decomposition(op: CompositeOp) -> None:
    """Replaces a composite by a call of its decomposition."""
    with ir.InsertionPoint(op.operation), op.location:
        call = func.CallOp([value.type for value in op.outputs], op.decomposition, list(op.inputs))
    for old, new in zip(op.outputs, call.results, strict=True):
        old.replace_all_uses_with(new)
    op.operation.erase()


def open_composites(module: ir.Module) -> None:
    """Replaces every composite by the body of its decomposition, and removes the decompositions."""
    for op in [op for op in walk(module.operation) if op.name == CompositeOp.OPERATION_NAME]:
        call_decomposition(op.opview)
    pipeline = passmanager.PassManager.parse("builtin.module(inline{default-pipeline=},symbol-dce)", module.context)
    pipeline.run(module.operation)
