"""Readable descriptions of a command: its kind, its name, and what it moves."""

from __future__ import annotations

from dmc.program.job import Job
from dmc.program.labels import short
from dmc.program.program import Collective, Launch, Move, Work


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


def action_of(work: Work) -> str:
    """The action of a pipeline to which it belongs, `2F0`: stage, kind and micro-batch. "" of none."""
    return "" if isinstance(work, Move) else work.action


def full_title_of(work: Work) -> str:
    """Its title after its action of a pipeline: `2F0 h.3.mlp`."""
    return f"{action_of(work)} {title_of(work)}".lstrip()


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
