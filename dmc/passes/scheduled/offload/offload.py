"""dm-offload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType

from dmc._mlir import ir
from dmc.analysis.requests.keeping import Word, keeping_of, last_word
from dmc.analysis.requests.settings import costs_of, machine_of, memory_cap_of
from dmc.analysis.tasks.graph import TaskGraph
from dmc.dialect.labels import kernel_label_of
from dmc.passes.base import Pass
from dmc.passes.scheduled.offload.choice import Choice
from dmc.passes.scheduled.offload.copies import visits_of
from dmc.passes.scheduled.offload.report import print_reasons
from dmc.passes.scheduled.offload.rewrite import rewrite
from dmc.passes.scheduled.offload.trips import Trip, clock_of, trips_of
from dmc.passes.scheduled.schedule import Schedule
from dmc.plans import rules


@dataclass(frozen=True)
class Offload(Pass):
    """Moves values that wait for the backward pass to host memory, and back.

    `%y = kernel @f(%x); …; kernel @g(%y)` becomes `%y = kernel @f(%x); %h = copy(%y, pinned_host); …; %z = copy(%h,
    device); kernel @g(%z)`, so that %y takes no device memory in between. Each copy is started and waited for, on
    queues copy_out and copy_in: out as early, back as late as does not delay a kernel. dm-schedule decides in the end.

    Nothing leaves but what the module's `dm.keeping` requests, unless no schedule fits under the cap. Then values leave
    whose copies hide behind kernels, no more than necessary; where that does not suffice, dm-keep lets kernels run
    again, or more values leave, whichever is faster (`choice.py`). What `dm.keeping` keeps or computes again does not
    leave. A CPU, whose memory is the host's, gains nothing by that: there only what is requested leaves.

    memory_cap: bytes of device memory that may be in use at once, arguments included; 0: the module's. machine: whose
    times count; the module's, if empty. reasons: print what the forward pass leaves to the backward pass, with its
    bytes, the time in between and that of its copies, and the decision, on stderr.
    """

    name = "dm-offload"
    memory_cap: int = 0
    machine: str = ""
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for operations that do not belong to form scheduled."""
        words, cap = keeping_of(module), memory_cap_of(module, self.memory_cap)
        if not cap and not self.reasons and not any(isinstance(word, rules.Offload) for word in words):
            return
        name = machine_of(module, self.machine)
        choice = Choice(module, costs_of(module, name), name, cap)
        graph = choice.graph()
        trips = trips_of(graph)
        requested = chosen = _of(graph, trips, words, rules.Offload)
        is_apart = not choice.machine.device.shared
        if cap and (is_apart or requested) and not choice.fits(requested):
            Schedule(algorithm="frugal", machine=name).run(module)
            graph = choice.graph()
            trips = trips_of(graph)
            requested = _of(graph, trips, words, rules.Offload)
            others = _of(graph, trips, words, NoneType)
            chosen = choice.within(requested, others) if is_apart else requested
        if self.reasons:
            print_reasons(graph, trips, requested, chosen, choice.machine)
        rewrite(graph, visits_of(clock_of(graph), chosen, choice.machine))


def _of(graph: TaskGraph, trips: Sequence[Trip], words: Sequence[Word], kind: type) -> list[Trip]:
    """The trips for which the last word is of a kind."""
    labels = [kernel_label_of(graph.tasks[trip.maker].op) for trip in trips]
    return [trip for trip, label in zip(trips, labels, strict=True) if isinstance(last_word(label, words)[0], kind)]
