"""Residual sums that may be made again, each from the one before."""

from __future__ import annotations

from math import prod

from dmc._mlir import ir
from dmc.analysis.kernels.casts import WIDEN, is_cast
from dmc.analysis.kernels.cheap import cheap_reads, is_cheap
from dmc.dialect.plan import element_bytes
from dmc.passes.scheduled.tensors.recompute.readers import only_loops_read
from dmc.passes.shared.step import Step, base_of

# Each reads half as much more. The kernel that would write the sum moves one and a half less: what it adds to stays
# unread, and what it adds is half as wide.
_MOST_READERS = 4


def every_second_sum(step: Step) -> frozenset[ir.Value]:
    """Residual sums of something narrow, none of which is made from another: that would take what was added to both.

    Only of those that few loops, and nothing else, read. Linear.
    """
    found: set[ir.Value] = set()
    behind: set[ir.Value] = set()
    for op in step.ops:
        if not is_cheap(op):
            continue
        (value,) = op.results
        is_behind = any(base_of(each) in behind for each in cheap_reads(op))
        if not step.is_join(op):
            behind.update((value,) if is_behind else ())
        elif not is_behind and _adds_narrow(op) and _is_read_by_few_loops(value, step):
            found.add(value)
            behind.add(value)
    return frozenset(found)


def _adds_narrow(op: ir.Operation) -> bool:
    """Whether one of the whole tensors that a sum reads is at most half as wide."""
    made = op.results[0].type
    types = [_unwidened(value).type for value in cheap_reads(op) if isinstance(value.type, ir.RankedTensorType)]
    whole = [each for each in types if prod(each.shape) == prod(made.shape)]
    return any(2 * element_bytes(each.element_type) <= element_bytes(made.element_type) for each in whole)


def _unwidened(value: ir.Value) -> ir.Value:
    value = base_of(value)
    is_widened = not isinstance(value.owner, ir.Block) and is_cast(value.owner.operation, WIDEN)
    return value.owner.operation.operands[0] if is_widened else value


def _is_read_by_few_loops(value: ir.Value, step: Step) -> bool:
    return len(step.users.get(value, ())) <= _MOST_READERS and only_loops_read(value)
