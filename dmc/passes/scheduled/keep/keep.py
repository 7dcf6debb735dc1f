"""dm-keep."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.memory.plan import plan_memory
from dmc.analysis.requests.keeping import keeping_of
from dmc.analysis.requests.settings import costs_of, machine_of, memory_cap_of
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.reader import read_tasks
from dmc.passes.base import Pass
from dmc.passes.scheduled.keep.choice import choose
from dmc.passes.scheduled.keep.replay import replay
from dmc.passes.scheduled.keep.report import print_reasons
from dmc.passes.scheduled.keep.rewrite import rewrite
from dmc.passes.scheduled.keep.step import Again, Step, step_of
from dmc.passes.scheduled.keep.words import Wanted, is_requested, wanted
from dmc.passes.scheduled.schedule import Schedule, fits
from dmc.passes.shared.starts import starts_of_returns
from dmc.passes.shared.trials import copy_of
from dmc.step_function import find_step

_TRIES = 6  # at most this many choices are planned until one fits,
_MARGIN = 50  # each with at least this part less than the one before


@dataclass(frozen=True)
class Keep(Pass):
    """Decides which activations are kept for the backward pass, and which are computed again there.

    `%y = kernel @f(%x); …; kernel @g(%y)` becomes `%y = kernel @f(%x); …; %z = kernel @f(%x); kernel @g(%z)`, so that
    %y is not held in between. The same code runs on the same operands, so bits do not change, dropout's draws
    included. Collectives do not run again; what they deliver is kept.

    All is kept, except for what the module's `dm.keeping` requests, unless no schedule fits under the cap. Then the
    kernels that free the most bytes at the peak per nanosecond run again (`choice.py`), no more than necessary.

    memory_cap: bytes of device memory that may be in use at once, arguments included; 0: the module's. machine: whose
    times count; the module's, if empty. only_requested: whatever the cap. reasons: print what is held at the peak with
    its bytes, the time to compute it again, and the decision, on stderr.
    """

    name = "dm-keep"
    memory_cap: int = 0
    machine: str = ""
    only_requested: bool = False
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for operations that do not belong to form scheduled."""
        name, words = machine_of(module, self.machine), keeping_of(module)
        cap = 0 if self.only_requested else memory_cap_of(module, self.memory_cap)
        # Without a cap, a request is the only reason to read the tasks.
        if not (cap or self.reasons or is_requested(find_step(module), words)):
            return
        step = self._read(module)
        requested = wanted(step, words)
        again = requested.again
        if cap and not self._fits(module, again, cap):
            # Where values are offloaded, dm-offload has seen to the order: a frugal one would wait for each copy.
            if not any(starts_of_returns(find_step(module).entry_block)):
                Schedule(algorithm="frugal", machine=name).run(module)
                step = self._read(module)
                requested = wanted(step, words)
            again = self._within(module, step, requested, cap)
        if self.reasons:
            print_reasons(step, requested, again)
        rewrite(step, again)

    def _read(self, module: ir.Module) -> Step:
        return step_of(read_tasks(module, TaskCosts.of(module, costs_of(module, self.machine))))

    def _fits(self, module: ir.Module, again: Again, cap: int) -> bool:
        """Whether an order is found under the cap, if these kernels run again."""
        return fits(self._with(module, again), machine_of(module, self.machine), cap)

    def _within(self, module: ir.Module, step: Step, requested: Wanted, cap: int) -> Again:
        """The kernels that run again so that the step fits under the cap, or else in the least memory found.

        What dm-plan-memory needs more than live bytes (fragmentation) or less (kernels that work in place) is likely to
        recur, so each try takes it into account. A try that can be placed is scheduled, too, since what follows may
        need more. The least memory does not depend on the cap: a refusal names it, and must find it again under that.
        """
        live, needed = replay(step, requested.again).peak, self._planned_bytes(module, requested.again)
        limit = live * cap // needed
        for _ in range(_TRIES):
            choice = choose(step, requested, limit)
            if choice.peak > limit:
                break
            needed = self._planned_bytes(module, choice.again)
            if needed <= cap and self._fits(module, choice.again, cap):
                return choice.again
            limit = min(limit * cap // needed, limit - limit // _MARGIN)
        return choose(step, requested, 0).again

    def _planned_bytes(self, module: ir.Module, again: Again) -> int:
        copy = self._with(module, again)
        return plan_memory(find_step(copy)).device_bytes

    def _with(self, module: ir.Module, again: Again) -> ir.Module:
        """A copy of the module in which these kernels run again."""
        copy = copy_of(module)
        # Its tasks have the same numbers.
        rewrite(self._read(copy), again)
        return copy
