"""Trying out what other passes would make of a module."""

from __future__ import annotations

from dmc._mlir import ir


def copy_of(module: ir.Module) -> ir.Module:
    """A copy of a module, with its attributes."""
    copy = ir.Module.create(module.operation.location)
    for name in module.operation.attributes:
        copy.operation.attributes[name] = module.operation.attributes[name]
    for op in module.body.operations:
        copy.body.append(op.operation.clone())
    return copy
