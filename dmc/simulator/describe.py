"""Readable descriptions of a command: its kind, its name, what it moves, and why it ran when it did."""

from __future__ import annotations

from collections.abc import Mapping

from dmc.program import Collective, Job, Launch, Move, Work
from dmc.program.labels import SEPARATOR, short
from dmc.simulator.simulation import Simulation, Span


def kind_of(job: Job, work: Work) -> str:
    """The kind of a kernel, "copy", or the kind of a collective."""
    match work:
        case Launch():
            return job.kernels[work.kernel].kind
        case Move():
            return "copy"
        case Collective():
            return work.kind


def name_of(work: Work) -> str:
    """Its title: a kernel's name, the spaces of a copy, or a collective and its channel."""
    match work:
        case Launch():
            return work.kernel
        case Move():
            return f"{work.source.space} → {work.target.space}"
        case Collective():
            return f"{work.kind} on {work.channel}"


def title_of(work: Work) -> str:
    """Its origin in the model; its name if unknown."""
    return short(work.label) or name_of(work)


def bytes_of(job: Job, work: Work) -> int:
    """A kernel's traffic; a move's bytes; for a collective those of the larger of source and target."""
    match work:
        case Launch():
            return job.kernels[work.kernel].traffic
        case Move():
            return work.source.length
        case Collective():
            return max(side.length for side in (work.source, work.target) if side is not None)


def flops_of(job: Job, work: Work) -> int:
    """Floating-point operations of a launch; 0 for anything else."""
    return job.kernels[work.kernel].flops if isinstance(work, Launch) else 0


def began_after(simulation: Simulation, span: Span) -> str:
    """Why it began when it did, as a clause: "after update on lane compute"."""
    cause = simulation.cause(span)
    if cause is None:
        return "with the step"
    lane = simulation.programs[cause.rank].lanes[cause.lane].name
    where = f"lane {lane}" if cause.rank == span.rank else f"lane {lane} of rank {cause.rank}"
    return f"after {title_of(simulation.work(cause))} on {where}"


def asked_for_by(work: Work, whys: Mapping[str, str]) -> str:
    """What required a movement between ranks, by the names in its label; a bucket's has several. "" if unknown."""
    if not isinstance(work, Collective):
        return ""
    found = [whys[part] for part in work.label.split(SEPARATOR) if whys.get(part)]
    return SEPARATOR.join(dict.fromkeys(found))
