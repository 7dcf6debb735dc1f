"""What several ranks hold alike is the same on all of them."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.ranks.sameness import differing_axes, stated_axes
from dmc.dialect import MeshOp
from dmc.dialect.transfers import SHARDING
from dmc.errors import DmcError
from dmc.step_function import find_step, results


def verify_replicas(module: ir.Module) -> None:
    """Raises DmcError for a result of `@step` that ranks may compute differently along an axis that does not split it.

    Nothing else would show it: each rank trains on, and what should be one tensor drifts apart. Without a mesh, or
    where the step does not say how its results lie, there is nothing to compare.
    """
    sizes = {
        axis.value: size
        for op in module.body.operations
        if isinstance(op, MeshOp)
        for axis, size in zip(op.axes, op.sizes, strict=True)
    }
    # Nobody differs from itself: along an axis of one rank nothing is reduced.
    several = frozenset(axis for axis, size in sizes.items() if size > 1)
    step = find_step(module)
    differing = differing_axes(step, frozenset(sizes))
    *_, end = step.entry_block.operations
    stated = step.operation.attributes.get("res_attrs", ())
    for port, own in zip(results(step), stated, strict=False):
        value = end.operation.operands[port.index]
        if SHARDING in own and (wrong := sorted(several & differing[value] - stated_axes(own[SHARDING]))):
            fact = f"'{port.name}' may differ between ranks along {', '.join(wrong)}, and is stated to be the same"
            hint = "reduce or gather what it is computed from along these axes, or state that it is split along them"
            raise DmcError(_maker(value, end.operation), fact, hint)


def _maker(value: ir.Value, end: ir.Operation) -> ir.Operation:
    """The operation that makes a value; for an argument, the one that returns it."""
    return end if isinstance(value.owner, ir.Block) else value.owner.operation
