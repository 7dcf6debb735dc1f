"""dm-schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.memory.attributes import write_places
from dmc.analysis.memory.peak import over_the_cap
from dmc.analysis.memory.plan import plan_memory
from dmc.analysis.requests.settings import costs_of, memory_cap_of
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.footprint import Footprint, footprint
from dmc.analysis.tasks.graph import Followers, TaskGraph, check_order
from dmc.analysis.tasks.reader import read_tasks
from dmc.analysis.tasks.timeline import Timeline, timeline
from dmc.passes.base import Pass
from dmc.passes.scheduled.schedule.list_scheduling import kernel_orders
from dmc.passes.scheduled.schedule.movements import place_movements
from dmc.passes.scheduled.schedule.picks import frees_first
from dmc.passes.scheduled.schedule.prefetch import prefetch_layers
from dmc.passes.scheduled.schedule.report import Limit, print_reasons
from dmc.stages import place_of

_UNTOLD = 1e-3  # of a step's time: less than the timing model can tell
_TRIES = 3  # at most this many caps are tried until dm-plan-memory can place the order under the requested one


@dataclass(frozen=True)
class Schedule(Pass):
    """Puts the operations of `@step` into their order of issue: the fastest one found under a memory cap.

    `wait(start(%gradient)); kernel` becomes `start; kernel; wait`: movements overlap with kernels that do not depend on
    them. Candidates are the given order, that of FSDP, and several list schedules, each with its movements started and
    waited for as the cap allows. The timing model of one rank (`dmc/analysis/tasks/timeline.py`, costs of `machine`)
    chooses, so the result is never slower than the input; among orders within 0.1 % of the fastest, the one that needs
    least memory. A stage of a pipeline keeps the order of its actions. algorithm: "asis" moves views only; "prefetch"
    gathers a layer's parameters while the layer before it runs, like FSDP, for comparison; "frugal" runs what frees
    memory as early as possible, without overlap that takes memory.

    memory_cap: bytes of device memory that may be in use at once, arguments included; 0: the module's. Over the cap,
    the orders that need the least memory are tried, too. Without a cap a list schedule takes no more memory than the
    given order, so that speed is not paid for in memory unasked; where movements wait for memory, like the gathers of
    ZeRO, a larger cap lets them start earlier. reasons: print, for each movement, what is hidden of it and what
    stopped the rest, and the limit with its reason, on stderr. Near-linear in the number of operations.
    """

    name = "dm-schedule"
    algorithm: Literal["list", "asis", "prefetch", "frugal"] = "list"
    memory_cap: int = 0
    machine: str = ""
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError if no order is found under the cap, and for operations that do not belong to form
        scheduled."""
        if place_of(module) is not None and self.algorithm != "asis":
            replace(self, algorithm="asis").run(module)
            return
        graph = read_tasks(module, TaskCosts.of(module, costs_of(module, self.machine)))
        given = _Candidate.of(graph, list(graph.order))
        # The frugal order is where dm-keep begins, over the cap.
        limit = 0 if self.algorithm == "frugal" else memory_cap_of(module, self.memory_cap)
        if limit:
            best = self._fitted(graph, given, limit)
        else:
            best = self._candidate(graph, given, given.footprint.peak)
            _reorder(graph, best.order)
        if self.reasons:
            print_reasons(graph, best.order, best.timeline, best.footprint, self._limit(given, limit))

    def _limit(self, given: _Candidate, cap: int) -> Limit:
        if cap:
            return Limit(cap, "memory cap")
        if self.algorithm == "list":
            return Limit(given.footprint.peak, "no cap: the memory of the given order")
        return Limit(None, "no cap")

    def _fitted(self, graph: TaskGraph, given: _Candidate, limit: int) -> _Candidate:
        """Puts `@step` into the fastest order that dm-plan-memory, which has the last word, can place under `limit`.

        The fragmentation it adds is likely to recur, so the next try subtracts it from the limit. Raises DmcError if
        even the orders that need the least memory do not fit.
        """
        cap = limit
        for _ in range(_TRIES if self.algorithm == "list" else 0):
            best = self._candidate(graph, given, cap)
            needed = _planned_bytes(graph, best.order)
            if needed <= limit:
                return _faster(graph, best, given, limit)
            if best.footprint.peak > cap:
                break  # Under a smaller cap hardly a better one is found.
            cap = cap * limit // needed
        frugal = _frugal(graph, given) if self.algorithm == "list" else [self._candidate(graph, given, limit)]
        needed = [_planned_bytes(graph, each.order) for each in frugal]
        fitting = [each for each, size in zip(frugal, needed, strict=True) if size <= limit]
        if not fitting:
            smallest = min(needed)
            _reorder(graph, frugal[needed.index(smallest)].order)
            write_places(graph.step, plan_memory(graph.step))
            fact = "the smallest cap for which a schedule was found"
            hint = f"set memory_cap={smallest}, {fact}, or split more of the state"
            raise over_the_cap(graph.step, smallest, limit, hint)
        best = min(fitting, key=lambda each: each.timeline.total)
        _reorder(graph, best.order)
        return best

    def _candidate(self, graph: TaskGraph, given: _Candidate, cap: int) -> _Candidate:
        match self.algorithm:
            case "asis":
                return given
            case "prefetch":
                return _Candidate.of(graph, prefetch_layers(graph, graph.kernels(), graph.followers()))
            case "frugal":
                return _frugal(graph, given)[-1]
            case "list":
                return _best(graph, given, cap)


@dataclass(frozen=True)
class _Candidate:
    order: list[int]
    timeline: Timeline
    footprint: Footprint

    @staticmethod
    def of(graph: TaskGraph, order: list[int]) -> _Candidate:
        return _Candidate(order, timeline(graph, order), footprint(graph, order))


def _best(graph: TaskGraph, given: _Candidate, cap: int) -> _Candidate:
    """The smallest of the fastest candidates under the cap; if there is none, the fastest of the smallest."""
    followers = graph.followers()
    layers = _Candidate.of(graph, prefetch_layers(graph, graph.kernels(), followers))
    candidates = [given, layers, *_candidates(graph, graph.kernels(), followers, cap)]
    if fitting := [each for each in candidates if each.footprint.peak <= cap]:
        return _smallest_of_the_fastest(fitting, given.timeline.total)
    frees = frees_first(graph, followers)
    candidates += _candidates(graph, frees, followers, cap)
    if fitting := [each for each in candidates if each.footprint.peak <= cap]:
        return _smallest_of_the_fastest(fitting, given.timeline.total)
    # Over the cap, too, movements may overlap where that takes no memory at the peak.
    tight = [place_movements(graph, base, followers, cap, overlap=True) for base in (graph.kernels(), frees)]
    candidates += [_Candidate.of(graph, order) for order in tight]
    return min(candidates, key=lambda each: (each.footprint.peak, each.timeline.total))


def _smallest_of_the_fastest(candidates: list[_Candidate], most: float) -> _Candidate:
    """Among those that the timing model cannot tell from the fastest; none slower than `most`, if one is not."""
    fastest = min(each.timeline.total for each in candidates)
    limit = max(fastest, min(fastest * (1.0 + _UNTOLD), most))
    return min(
        (each for each in candidates if each.timeline.total <= limit),
        key=lambda each: (each.footprint.peak, each.timeline.total),
    )


def _candidates(graph: TaskGraph, base: list[int], followers: Followers, cap: int) -> Iterator[_Candidate]:
    """Orders with the kernels as in `base`, without and with overlap; and where these fit, list schedules."""
    for overlap in (False, True):
        yield (found := _Candidate.of(graph, place_movements(graph, base, followers, cap, overlap=overlap)))
        if found.footprint.peak > cap:
            return
    seen = {tuple(base)}
    for kernels in kernel_orders(graph, base, followers, cap):
        # Of one lane, many orders are the same.
        if tuple(kernels) in seen:
            continue
        seen.add(tuple(kernels))
        yield _Candidate.of(graph, place_movements(graph, kernels, followers, cap, overlap=True))


def _frugal(graph: TaskGraph, given: _Candidate) -> list[_Candidate]:
    """The given order, and orders without overlap that takes memory, whatever the cap."""
    followers = graph.followers()
    bases = (graph.kernels(), frees_first(graph, followers))
    orders = [place_movements(graph, base, followers, None, overlap=False) for base in bases]
    return [given, *(_Candidate.of(graph, order) for order in orders)]


def _faster(graph: TaskGraph, best: _Candidate, given: _Candidate, limit: int) -> _Candidate:
    """The given order if it is faster and fits, which its footprint may have hidden; `@step` is put into it."""
    if given.timeline.total < best.timeline.total and _planned_bytes(graph, given.order) <= limit:
        return given
    _reorder(graph, best.order)
    return best


def _planned_bytes(graph: TaskGraph, order: list[int]) -> int:
    """The memory dm-plan-memory needs for `@step`, which is put into this order."""
    _reorder(graph, order)
    return plan_memory(graph.step).device_bytes


def _reorder(graph: TaskGraph, order: list[int]) -> None:
    """Moves the operations; views and buckets go right before their first use."""
    check_order(graph, order)
    *body, terminator = [view.operation for view in graph.step.entry_block.operations]
    placed: set[ir.Operation] = set()
    for event in order:
        task = graph.tasks[event if event >= 0 else ~event]
        _place(task.op if event >= 0 else task.wait, terminator, placed)
        if event >= 0 and not task.is_movement and task.wait is not None:
            _place(task.wait, terminator, placed)
    for op in body:
        _place(op, terminator, placed)


def _place(op: ir.Operation | None, terminator: ir.Operation, placed: set[ir.Operation]) -> None:
    """Moves an operation after all placed ones, preceded by its views."""
    if op is None or op in placed:
        return
    placed.add(op)
    for operand in op.operands:
        owner = operand.owner
        if not isinstance(owner, ir.Block) and not isinstance(owner.opview, dm.StartOp):
            _place(owner.operation, terminator, placed)
    op.move_before(terminator)
