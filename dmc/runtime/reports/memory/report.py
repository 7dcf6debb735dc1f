"""The memory that a planned step needs, as a report: nothing is run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmc.program import Job
from dmc.program.rank_memory import RankMemory, memories_of
from dmc.runtime.reports.report import Report

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class MemoryReport(Report):
    """The memory of all ranks; those with equal programs are one entry."""

    ranks: tuple[RankMemory, ...]

    def parts(self, exact: bool = False) -> Iterable[RenderableType]:
        """Contents of the arena, activations by module, the largest buffers at the peak."""
        from dmc.runtime.reports.memory.table import parts

        return parts(self.ranks, exact)


def report(job: Job) -> MemoryReport:
    """The report on a job."""
    return MemoryReport(memories_of(job))
