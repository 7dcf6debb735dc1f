"""Which values wait in host memory, so that a step fits under a cap.

What hides behind kernels costs no time: of those values as few as fit, or all where they do not suffice, the longest
idle first. Kernels run again for the rest (dm-keep). That is scheduled, and so is the step in which nothing but what is
requested leaves; the faster one is taken. Where neither fits, all values leave, and kernels wait for some of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from dmc._mlir import ir
from dmc.analysis.memory.plan import plan_memory
from dmc.analysis.storage.spaces import waiting_bytes
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.graph import TaskGraph
from dmc.analysis.tasks.reader import read_tasks
from dmc.analysis.tasks.timeline import timeline
from dmc.machine import Machine
from dmc.passes.base import run_passes
from dmc.passes.scheduled.keep import Keep
from dmc.passes.scheduled.offload.copies import hidden, visits_of
from dmc.passes.scheduled.offload.rewrite import rewrite
from dmc.passes.scheduled.offload.trips import Trip, clock_of, trips_of
from dmc.passes.scheduled.schedule import SPREAD, fits
from dmc.passes.shared.trials import copy_of
from dmc.step_function import find_step

_WORTH = 64  # A value less than the largest by more than this factor does not leave.


@dataclass(frozen=True)
class Choice:
    """Tries values on copies of a module. name: of the machine, or its file."""

    module: ir.Module
    machine: Machine
    name: str
    cap: int

    def fits(self, trips: Sequence[Trip]) -> bool:
        """Whether dm-schedule finds an order under the cap, if these values leave, and only what is requested is
        computed again."""
        return self._fits(self._with(trips), Keep(only_requested=True))

    def within(self, requested: Sequence[Trip], others: Sequence[Trip]) -> list[Trip]:
        """Those that leave: the ones requested, and as many of the others as the cap requires."""
        largest = max((trip.bytes for trip in others), default=0)
        worth = [trip for trip in others if trip.bytes * _WORTH >= largest]
        free = hidden(clock_of(self.graph()), worth, self.machine, waiting_bytes(find_step(self.module)))
        tries = [[*requested, *free[:count]] for count in range(len(free) + 1)]
        enough = bisect_left(tries, True, key=lambda trips: self._planned_bytes(trips) <= self.cap)
        tried = (tries[0], tries[min(enough, len(free))])
        time, best = min(((self._time(trips), trips) for trips in tried), key=lambda pair: pair[0])
        return [*requested, *worth] if time == inf else best

    def graph(self) -> TaskGraph:
        """The tasks of the module."""
        return self._graph(self.module)

    def _graph(self, module: ir.Module) -> TaskGraph:
        return read_tasks(module, TaskCosts.of(module, self.machine))

    def _with(self, trips: Sequence[Trip]) -> ir.Module:
        """A copy of the module in which these values leave."""
        copy = copy_of(self.module)
        graph = self._graph(copy)
        # Its tasks have the same numbers.
        own = {(trip.maker, trip.number): trip for trip in trips_of(graph)}
        chosen = [own[trip.maker, trip.number] for trip in trips]
        rewrite(graph, visits_of(clock_of(graph), chosen, self.machine))
        return copy

    def _planned_bytes(self, trips: Sequence[Trip]) -> int:
        copy = self._with(trips)
        run_passes(copy, (Keep(only_requested=True), *SPREAD))
        return plan_memory(find_step(copy)).device_bytes

    def _time(self, trips: Sequence[Trip]) -> float:
        """The time of a step under the cap, if these values leave; infinite if nothing fits."""
        copy = self._with(trips)
        if not self._fits(copy, Keep(memory_cap=self.cap, machine=self.name)):
            return inf
        graph = self._graph(copy)
        return timeline(graph, graph.order).total

    def _fits(self, module: ir.Module, keep: Keep) -> bool:
        keep.run(module)
        return fits(module, self.name, self.cap)
