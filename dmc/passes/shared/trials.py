"""Trying out what other passes would make of a module."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.errors import MemoryCapError
from dmc.passes.base import parse_pipeline, run_passes

# What the compiler runs between dm-keep and dm-schedule: in a trial without it, dm-schedule is given another order.
SPREAD = "dm-hoist-start,dm-sink-wait"


def copy_of(module: ir.Module) -> ir.Module:
    """A copy of a module, with its attributes."""
    copy = ir.Module.create(module.operation.location)
    for name in module.operation.attributes:
        copy.operation.attributes[name] = module.operation.attributes[name]
    for op in module.body.operations:
        copy.body.append(op.operation.clone())
    return copy


def fits(module: ir.Module, machine: str, cap: int) -> bool:
    """Runs what the compiler runs behind dm-keep. Whether that finds an order under the cap."""
    try:
        run_passes(module, parse_pipeline(f"{SPREAD},dm-schedule{{machine={machine} memory_cap={cap}}}"))
    except MemoryCapError:
        return False
    return True
