"""Whether a step finds an order under a cap."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.errors import MemoryCapError
from dmc.passes.base import run_passes
from dmc.passes.scheduled.hoist_start import HoistStart
from dmc.passes.scheduled.schedule.schedule import Schedule
from dmc.passes.scheduled.sink_wait import SinkWait

# What the compiler runs between dm-keep and dm-schedule: in a trial without it, dm-schedule is given another order.
SPREAD = (HoistStart(), SinkWait())


def fits(module: ir.Module, machine: str, cap: int) -> bool:
    """Runs what the compiler runs behind dm-keep. Whether that finds an order under the cap."""
    try:
        run_passes(module, (*SPREAD, Schedule(machine=machine, memory_cap=cap)))
    except MemoryCapError:
        return False
    return True
