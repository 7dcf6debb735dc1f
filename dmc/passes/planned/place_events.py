"""dm-place-events: lanes wait for each other where their accesses conflict, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.commands.events import needed_edges, with_events
from dmc.analysis.commands.jobs import job_of
from dmc.errors import DmcError
from dmc.passes.base import Pass
from dmc.passes.shared.programs import write_program
from dmc.program import Program

_WORK = (dm.LaunchOp, dm.MoveOp, dm.CollectiveOp)


@dataclass(frozen=True)
class PlaceEvents(Pass):
    """Adds `dm.record` and `dm.await` so that conflicting accesses run in program order.

    `launch(compute, writes r); collective(comm, reads r)` becomes `launch; record(compute, 0); await(comm, 0);
    collective`. Two accesses conflict where they share a byte and one of them writes; that covers data dependences as
    well as memory reuse. Only necessary events are placed: the transitive reduction. Ranks that run the same program
    get the same events.
    """

    name = "dm-place-events"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError unless the programs of all ranks match."""
        programs = job_of(module).programs
        for program in programs[1:]:
            _check_alike(programs[0], program)
        edges = needed_edges(programs)
        for op in [op for op in module.body.operations if isinstance(op, dm.ProgramOp)]:
            works = [each for each in op.regions[0].blocks[0].operations if isinstance(each, _WORK)]
            with ir.InsertionPoint(op), op.location:
                write_program(with_events(programs[op.rank.value], edges), [each.location for each in works])
            op.operation.erase()


def _check_alike(first: Program, other: Program) -> None:
    mine, theirs = ([(type(c), c.lane) for c in program.commands] for program in (first, other))
    if first.lanes != other.lanes or mine != theirs:
        fact = "runs different commands from rank 0"
        raise DmcError(f"rank {other.rank}", fact, "ranks of one step may differ in addresses only")
