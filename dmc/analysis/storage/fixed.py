"""Addresses of state that are decided already, because another program has the same state in the same memory.

`dm.fixed_offset`: on an argument of `@step`, the byte of the arena of its memory space at which it begins. Where stages
run programs of their own, an array with one for each stage, -1 for those that do not have the tensor.
"""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.dialect.build import i64
from dmc.program import Job
from dmc.step_function import STATE_ROLES, arguments, find_step

FIXED_OFFSET = "dm.fixed_offset"
_ABSENT = -1


def fix_state(module: ir.Module, job: Job) -> None:
    """States that each tensor of the state begins where it does in `job`, on all ranks that have it there."""
    step, offsets = find_step(module), _offsets(job)
    with module.context:
        given = zip(arguments(step), step.arg_attrs, strict=True)
        fixed = [_fixed(own, offsets.get(port.name) if port.role in STATE_ROLES else None) for port, own in given]
        step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(fixed)


def of_stage(own: ir.DictAttr, stage: int) -> ir.DictAttr:
    """The attributes of an argument of the step of one stage, made from those of the step of all.

    stage: among those of `Job.stages`, their coordinates counted row-major.
    """
    offset = _at(own, stage)
    if not is_decided(own):
        return own
    rest = {each.name: each.attr for each in own if each.name != FIXED_OFFSET}
    return ir.DictAttr.get(rest if offset is None else {**rest, FIXED_OFFSET: i64(offset)})


def is_decided(own: ir.DictAttr) -> bool:
    """Whether it is decided for an argument where it is; then also which stages have it."""
    return FIXED_OFFSET in own


def is_on(own: ir.DictAttr, stage: int) -> bool:
    """Whether it is decided that a stage has an argument, also where its program does not read it."""
    return _at(own, stage) is not None


def fixed_offsets(step: func.FuncOp) -> dict[ir.Value, int]:
    """The offsets of the arguments for which they are decided."""
    attributes = step.operation.attributes.get("arg_attrs")
    pairs = zip(step.arguments, [] if attributes is None else attributes, strict=False)
    return {value: ir.IntegerAttr(own[FIXED_OFFSET]).value for value, own in pairs if FIXED_OFFSET in own}


def _at(own: ir.DictAttr, stage: int) -> int | None:
    if FIXED_OFFSET not in own:
        return None
    if isinstance(given := own[FIXED_OFFSET], ir.DenseI64ArrayAttr):
        return None if given[stage] == _ABSENT else given[stage]
    return ir.IntegerAttr(given).value


def _offsets(job: Job) -> dict[str, list[int]]:
    """By tensor, its offset in each stage, or the one that it has in all."""
    stages = job.layout.group_size(job.stages)
    found: dict[str, list[int]] = {}
    for each in job.classes:
        stage = job.layout.index_in_group(each.ranks[0], job.stages)
        for slot in each.program.slots:
            if slot.role in STATE_ROLES:
                found.setdefault(slot.name, [_ABSENT] * stages)[stage] = slot.range.offset
    return found


def _fixed(own: ir.DictAttr, offsets: list[int] | None) -> ir.DictAttr:
    if offsets is None:
        return own
    attributes = {each.name: each.attr for each in own}
    offset = i64(offsets[0]) if len(offsets) == 1 else ir.DenseI64ArrayAttr.get(offsets)
    return ir.DictAttr.get({**attributes, FIXED_OFFSET: offset})
