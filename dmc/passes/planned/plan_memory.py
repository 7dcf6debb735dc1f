"""dm-plan-memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.memory.attributes import write_places
from dmc.analysis.memory.peak import over_the_cap
from dmc.analysis.memory.plan import plan_memory
from dmc.analysis.requests.settings import memory_cap_of
from dmc.passes.base import Pass
from dmc.step_function import find_step


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Assigns an address to every value of `@step`, in form scheduled, and states it as attributes.

    `%y = kernel(%x)` gets `dm.offsets = [512]`, the byte at which `%y` begins in the arena of its memory space; a token
    gets -1. `@step` gets the sizes of its arenas. Views and buckets alias their operands; new values of state take the
    place of the old ones if these are dead. An argument with `dm.fixed_offset` begins there, as in another program with
    the same state. `dm.copied` on a `dm.pack` lists the operands that could not be computed in
    the bucket.

    cap: the most bytes of the device, for its arena and for the inputs of all calls in flight; 0 is none. report: print
    size and lower bound on stderr.
    """

    name = "dm-plan-memory"
    cap: int = 0
    report: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for operations that do not belong to form scheduled, and for a step that needs more than the
        cap."""
        step = find_step(module)
        plan = plan_memory(step)
        if self.report:
            for space, arena in plan.arenas.items():
                ratio = arena.bytes / arena.bound
                print(f"{space}: {arena.bytes:,} B, lower bound {arena.bound:,} B, {ratio:.3f}", file=sys.stderr)
        write_places(step, plan)
        needed = plan.device_bytes
        cap = memory_cap_of(module, self.cap)
        if cap and needed > cap:
            hint = (
                f"the smallest cap that works in this order is {needed:,}; dm-schedule{{memory-cap=}} searches for "
                f"other orders"
            )
            raise over_the_cap(step, needed, cap, hint)
