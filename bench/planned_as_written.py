"""A plan whose lanes wait for each other as `@step` is written: to play what a pipeline decided, and no more.

A plan of dmc keeps neither the places of starts nor those of waits: there, lanes wait for bytes only, so a movement
that is waited for at once still overlaps with whatever does not touch what it moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.commands.events import Edge, needed_edges, with_events
from dmc.analysis.commands.jobs import job_of
from dmc.passes.base import run_passes
from dmc.passes.planned.lower_to_plan import LowerToPlan
from dmc.passes.planned.plan_memory import PlanMemory
from dmc.program import Job, Launch, Program, Work, covering
from dmc.step_function import find_step


def planned_as_written(module: ir.Module) -> Job:
    """The job of a step in form scheduled; `module` is in form planned afterwards.

    Movements begin behind what stands before their starts, kernels behind the waits that stand before them, as in
    `dmc/analysis/tasks/timeline.py`. Raises DmcError as dm-plan-memory and dm-lower-to-plan do.
    """
    orders = list(_orders(find_step(module)))
    run_passes(module, (PlanMemory(), LowerToPlan()))
    job = job_of(module)
    written = job.mapped(lambda program: with_events(program, tuple(_edges(program, orders))))
    (own,) = written.classes
    return written.mapped(lambda program: with_events(program, needed_edges(covering(own, job.layout))))


def _orders(step: func.FuncOp) -> Iterator[tuple[int, int]]:
    """Which kernel or movement comes before which; they count from 0 as they stand."""
    started: dict[ir.Value, int] = {}
    passed: list[int] = []  # The last kernel, and the movements waited for since.
    number = 0
    for view in step.entry_block.operations:
        if isinstance(view, dm.WaitOp):
            passed.append(started[view.handle])
        if not isinstance(view, dm.KernelOp | dm.StartOp):
            continue
        yield from ((before, number) for before in passed)
        if isinstance(view, dm.KernelOp):
            passed = [number]
        else:
            started[view.handle] = number
        number += 1


def _edges(program: Program, orders: Sequence[tuple[int, int]]) -> Iterator[Edge]:
    lanes = [command.lane for command in program.commands]
    # On the lane of computation there are moves, too, into buckets and slots.
    places = [
        place
        for place, command in enumerate(program.commands)
        if isinstance(command, Launch) or (isinstance(command, Work) and program.lanes[lanes[place]].queue != "compute")
    ]
    for source, target in ((places[before], places[behind]) for before, behind in orders):
        if lanes[source] != lanes[target]:
            yield Edge(source, target)
