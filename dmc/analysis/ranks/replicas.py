"""Checks that replicas are equal on all ranks."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.ranks.sameness import differing_axes, stated_axes
from dmc.dialect import MeshOp
from dmc.dialect.transfers import SHARDING
from dmc.errors import DmcError
from dmc.step_function import find_step, results


def verify_replicas(module: ir.Module) -> None:
    """Raises DmcError for a result of `@step` that ranks may compute differently along an axis that does not split it.

    Nothing else would show it: each rank keeps training, and the replicas diverge. Without a mesh, or for results
    without a placement, there is nothing to compare.
    """
    sizes = {
        axis.value: size
        for op in module.body.operations
        if isinstance(op, MeshOp)
        for axis, size in zip(op.axes, op.sizes, strict=True)
    }
    # Along an axis of one rank there is nothing to compare.
    several = frozenset(axis for axis, size in sizes.items() if size > 1)
    step = find_step(module)
    differing = differing_axes(step, frozenset(sizes))
    *_, end = step.entry_block.operations
    stated = step.operation.attributes.get("res_attrs", ())
    for port, own in zip(results(step), stated, strict=False):
        value = end.operation.operands[port.index]
        if SHARDING in own and (wrong := sorted(several & differing[value] - stated_axes(own[SHARDING]))):
            fact = f"'{port.name}' may differ between ranks along {', '.join(wrong)}, but is declared replicated"
            hint = "reduce or gather its operands along these axes, or declare it split along them"
            raise DmcError(_maker(value, end.operation), fact, hint)


def _maker(value: ir.Value, end: ir.Operation) -> ir.Operation:
    """The producer of a value; for an argument, the operation that returns it."""
    return end if isinstance(value.owner, ir.Block) else value.owner.operation
