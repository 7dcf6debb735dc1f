"""Addresses of state that are decided already, because another program has the same state in the same memory.

`dm.fixed_offset`: on an argument of `@step`, the byte of the arena of its memory space at which it begins.
"""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.dialect.build import i64
from dmc.program import Job
from dmc.step_function import STATE_ROLES, arguments, find_step

FIXED_OFFSET = "dm.fixed_offset"


def fix_state(module: ir.Module, job: Job) -> None:
    """States that each tensor of the state begins where it does in `job`, on all ranks."""
    step = find_step(module)
    offsets = {slot.name: slot.range.offset for slot in job.classes[0].program.slots if slot.role in STATE_ROLES}
    with module.context:
        given = zip(arguments(step), step.arg_attrs, strict=True)
        fixed = [_fixed(own, offsets.get(port.name) if port.role in STATE_ROLES else None) for port, own in given]
        step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(fixed)


def fixed_offsets(step: func.FuncOp) -> dict[ir.Value, int]:
    """The offsets of the arguments for which they are decided."""
    attributes = step.operation.attributes.get("arg_attrs")
    pairs = zip(step.arguments, [] if attributes is None else attributes, strict=False)
    return {value: ir.IntegerAttr(own[FIXED_OFFSET]).value for value, own in pairs if FIXED_OFFSET in own}


def _fixed(own: ir.DictAttr, offset: int | None) -> ir.DictAttr:
    attributes = {each.name: each.attr for each in own}
    return own if offset is None else ir.DictAttr.get({**attributes, FIXED_OFFSET: i64(offset)})
