"""dm-plan-memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.analysis.memory_plan import MemoryPlan, plan_memory
from dmc.analysis.storage import DEVICE
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.step_function import find_step

ARENAS, OFFSET, OFFSETS = "dm.arenas", "dm.offset", "dm.offsets"
COPIED, SCRATCH_OFFSET = "dm.copied", "dm.scratch_offset"


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Decides where every value of `@step` lies, in form scheduled, and states it as attributes.

    `%y = kernel(%x)` gets `dm.offsets = [512]`, the byte at which `%y` begins in the arena of its memory space; a token
    gets -1. `@step` gets the sizes of its arenas. What only looks at memory, and buckets, lies in what it looks at;
    new values of state lie where the old ones did if nobody reads these any more. `dm.copied` on a `dm.pack` lists the
    operands that could not be made in the bucket.

    cap: the largest size of the device's arena, in bytes; 0 is none. report: print size and lower bound on stderr.
    """

    name = "dm-plan-memory"
    cap: int = 0
    report: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for what has no place in form scheduled, and for a step that needs more than the cap."""
        step = find_step(module)
        plan = plan_memory(module)
        if self.report:
            for space, arena in plan.arenas.items():
                ratio = arena.bytes / arena.bound
                print(f"{space}: {arena.bytes:,} B, lower bound {arena.bound:,} B, {ratio:.3f}", file=sys.stderr)
        needed = plan.arenas[DEVICE].bytes if DEVICE in plan.arenas else 0
        if self.cap and needed > self.cap:
            fact = f"needs {needed:,} bytes of device memory, the cap is {self.cap:,}"
            raise DmcError(step.operation, fact, f"the smallest cap that works for this order is {needed:,}")
        _write(step, plan)


def _write(step: func.FuncOp, plan: MemoryPlan) -> None:
    given = {space: _i64(arena.bytes) for space, arena in plan.arenas.items()}
    step.operation.attributes[ARENAS] = ir.DictAttr.get(given)
    attributes = step.operation.attributes.get("arg_attrs")
    before = [{}] * len(step.arguments) if attributes is None else [_dictionary(each) for each in attributes]
    after = [
        ir.DictAttr.get({**own, OFFSET: _i64(plan.offset(value))})
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
        op.attributes[SCRATCH_OFFSET] = _i64(plan.scratch[position])


def _dictionary(attribute: ir.DictAttr) -> dict[str, ir.Attribute]:
    return {named.name: named.attr for named in attribute}


def _i64(number: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
