"""What people call a command: its kind, its name, where it comes from and how much it moves."""

from __future__ import annotations

from dmc.program import Collective, Job, Launch, Move, Work


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
    """What exactly it is: a kernel's name, the way of a copy, or a collective and its channel."""
    match work:
        case Launch():
            return work.kernel
        case Move():
            return f"{work.source.space} → {work.target.space}"
        case Collective():
            return f"{work.kind} on {work.channel}, {len(work.ranks)} ranks"


def bytes_of(job: Job, work: Work) -> int:
    """A kernel's traffic; of a move its bytes; of a collective those of the larger of source and target."""
    match work:
        case Launch():
            return job.kernels[work.kernel].traffic
        case Move():
            return work.source.length
        case Collective():
            return max(side.length for side in (work.source, work.target) if side is not None)


def flops_of(job: Job, work: Work) -> int:
    """Floating-point operations of a launch; nothing else has any."""
    return job.kernels[work.kernel].flops if isinstance(work, Launch) else 0
