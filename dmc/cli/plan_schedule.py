"""`dmc plan --schedule`: what the ranks of a pipeline do, in order."""

from __future__ import annotations

from itertools import groupby

from dmc.errors import DmcError
from dmc.program import Job, Launch, Program
from dmc.program.describe import action_of


def schedule_text(file: str, job: Job) -> str:
    """A line for each rank along the axis of the pipeline: its actions, such as `0F0` for stage 0, forward,
    micro-batch 0, without those for which it computes nothing. Raises DmcError for a step without stages."""
    if not job.stages:
        raise DmcError(file, "has no stages", "compile it under a plan with .pipeline(axis, cut=…)")
    rows = [(_ranks(each.ranks), " ".join(_actions(each.program))) for each in job.classes]
    width = max(len(ranks) for ranks, _ in rows)
    return "\n".join(f"{ranks:{width}}  {actions}" for ranks, actions in rows)


def _ranks(ranks: tuple[int, ...]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _actions(program: Program) -> list[str]:
    """Those of the kernels, each once where it follows itself."""
    kernels = (action_of(each) for each in program.commands if isinstance(each, Launch))
    return [action for action, _ in groupby(filter(None, kernels))]
