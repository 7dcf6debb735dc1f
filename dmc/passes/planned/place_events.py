"""dm-place-events: lanes wait for each other where their accesses conflict, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.commands.events import needed_edges, with_events
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.requests.verbs import verbs_of
from dmc.dialect.build import i64
from dmc.dialect.plan import COMMANDS
from dmc.passes.base import Pass
from dmc.plans.verbs import Overlap
from dmc.program import Await, Program, Record, covering


@dataclass(frozen=True)
class PlaceEvents(Pass):
    """Adds `dm.record` and `dm.await` so that conflicting accesses run in program order.

    `launch(compute, writes r); collective(comm, reads r)` becomes `launch; record(compute, 0); await(comm, 0);
    collective`. Two accesses conflict where they share a byte and one of them writes; that covers data dependences as
    well as memory reuse. Only necessary events are placed: the transitive reduction. Where ranks of a class read
    slices, an event that one of them needs is every rank's. Where the plan wants no overlap (`dm.verbs`), each command
    waits for the one before it.
    """

    name = "dm-place-events"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError where there is no program."""
        job, in_turn = job_of(module), bool(verbs_of(module, Overlap))
        classes = {own.ranks: own for own in job.classes}
        for op in [op for op in module.body.operations if isinstance(op, dm.ProgramOp)]:
            own = classes[tuple(op.ranks)]
            _add_events(op, own.program, with_events(own.program, needed_edges(covering(own, job.layout), in_turn)))


def _add_events(op: dm.ProgramOp, before: Program, after: Program) -> None:
    """Turns the program `before` into `after`: most of a program stays as it is.

    An event belongs to the work before it.
    """
    block = op.regions[0].blocks[0]
    views = list(block.operations)
    commands = [view for view in views if isinstance(view, COMMANDS)]
    here, place = op.location, 0
    for command in after.commands:
        if place < len(commands) and command is before.commands[place]:
            here = commands[place].location
            place += 1
            continue
        assert isinstance(command, Record | Await), "events are all that is added"
        build = dm.record if isinstance(command, Record) else dm.await_
        with here, ir.InsertionPoint(commands[place]) if place < len(commands) else ir.InsertionPoint(block):
            build(lane=after.lanes[command.lane].name, event=command.event)
    buffers = [view for view in views if isinstance(view, dm.BufferOp)]
    with op.context:
        for view, own in zip(buffers, after.buffers, strict=True):
            view.operation.attributes["first"] = i64(own.first)
            view.operation.attributes["last"] = i64(own.last)
