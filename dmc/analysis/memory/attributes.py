"""The addresses of the values of `@step`, as attributes.

`dm.arenas`: on the step, the bytes of the arena of each memory space. `dm.offset`: on an argument, the byte at which it
begins. `dm.offsets`: on an op, the same for each result, -1 for a token. `dm.scratch_offset`: on a kernel with scratch
memory. `dm.copied`: on a `dm.pack`, which of its operands are elsewhere and are copied into the bucket.
"""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.analysis.memory.plan import MemoryPlan
from dmc.dialect.build import i64
from dmc.errors import DmcError

ARENAS, OFFSET, OFFSETS = "dm.arenas", "dm.offset", "dm.offsets"
COPIED, SCRATCH_OFFSET = "dm.copied", "dm.scratch_offset"
_HINT = "run dm-plan-memory first"


def write_places(step: func.FuncOp, plan: MemoryPlan) -> None:
    """States all addresses on `@step`, its arguments and each op, replacing earlier ones."""
    given = {space: i64(arena.bytes) for space, arena in plan.arenas.items()}
    step.operation.attributes[ARENAS] = ir.DictAttr.get(given)
    attributes = step.operation.attributes.get("arg_attrs")
    before = [{}] * len(step.arguments) if attributes is None else [_dictionary(each) for each in attributes]
    after = [
        ir.DictAttr.get({**own, OFFSET: i64(plan.offset(value))})
        for own, value in zip(before, step.arguments, strict=True)
    ]
    step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(after)
    for position, op in enumerate(plan.sharing.storages.ops):
        _write_op(op, position, plan)


def _write_op(op: ir.Operation, position: int, plan: MemoryPlan) -> None:
    for name in (OFFSETS, COPIED, SCRATCH_OFFSET):
        if name in op.attributes:
            del op.attributes[name]
    if len(op.results):
        places = plan.sharing.storages.places
        offsets = [plan.offset(value) if value in places else -1 for value in op.results]
        op.attributes[OFFSETS] = ir.DenseI64ArrayAttr.get(offsets)
    if copied := plan.sharing.copied.get(position):
        op.attributes[COPIED] = ir.DenseI64ArrayAttr.get(copied)
    if position in plan.scratch:
        op.attributes[SCRATCH_OFFSET] = i64(plan.scratch[position])


def _dictionary(attribute: ir.DictAttr) -> dict[str, ir.Attribute]:
    return {named.name: named.attr for named in attribute}


def stated_offset(value: ir.Value) -> int:
    """The byte at which a value begins in the arena of its space. Raises DmcError if not stated."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        number = ir.BlockArgument(value).arg_number
        attributes = owner.owner.attributes["arg_attrs"][number]
        if OFFSET not in attributes:
            raise DmcError(owner.owner.operation, f"argument {number} has no address", _HINT)
        return ir.IntegerAttr(attributes[OFFSET]).value
    if OFFSETS not in owner.attributes:
        raise DmcError(owner, "its results have no addresses", _HINT)
    return list(owner.attributes[OFFSETS])[ir.OpResult(value).result_number]


def stated_scratch_offset(kernel: ir.Operation) -> int:
    """The byte at which the scratch memory of a kernel begins. Raises DmcError if not stated."""
    if SCRATCH_OFFSET not in kernel.attributes:
        raise DmcError(kernel, "its scratch memory has no address", _HINT)
    return ir.IntegerAttr(kernel.attributes[SCRATCH_OFFSET]).value
