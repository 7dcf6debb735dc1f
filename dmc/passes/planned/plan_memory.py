"""dm-plan-memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.memory.attributes import write_places
from dmc.analysis.memory.peak import over_the_cap
from dmc.analysis.memory.plan import plan_memory
from dmc.analysis.requests.settings import memory_cap_of
from dmc.analysis.storage.storages import DEVICE
from dmc.passes.base import Pass
from dmc.step_function import find_step


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
        plan = plan_memory(step)
        if self.report:
            for space, arena in plan.arenas.items():
                ratio = arena.bytes / arena.bound
                print(f"{space}: {arena.bytes:,} B, lower bound {arena.bound:,} B, {ratio:.3f}", file=sys.stderr)
        write_places(step, plan)
        needed = plan.arenas[DEVICE].bytes if DEVICE in plan.arenas else 0
        cap = memory_cap_of(module, self.cap)
        if cap and needed > cap:
            hint = (
                f"the smallest cap that works in this order is {needed:,}; dm-schedule{{memory-cap=}} looks for others"
            )
            raise over_the_cap(step, needed, cap, hint)
