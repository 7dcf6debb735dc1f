"""The plan of a rank as a report: its commands, one per line."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmc.program import Job
from dmc.program.sizes import size_text
from dmc.runtime.reports.plan.lines import Line, lines_of
from dmc.runtime.reports.report import Report

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class PlanReport(Report):
    """The program of one rank: a sentence about the whole, and these of its commands."""

    job: Job
    rank: int
    lines: tuple[Line, ...]

    @staticmethod
    def of(job: Job, rank: int, label: str | None = None) -> PlanReport:
        """label: a shell pattern over the commands' labels, as in "h.*.attn*"; by default all are shown."""
        lines = lines_of(job, rank)
        chosen = lines if label is None else [line for line in lines if fnmatch.fnmatchcase(line.label, label)]
        return PlanReport(job, rank, tuple(chosen))

    def parts(self, exact: bool = False) -> Iterable[RenderableType]:
        """The sentence and the table."""
        from dmc.runtime.reports.plan.table import table

        return [self._head(exact), table((str(line.number), line) for line in self.lines)]

    def _head(self, exact: bool) -> str:
        """The rank, its numbers of commands and lanes, and its arenas."""
        program, ranks = self.job.program(self.rank), self.job.size
        arenas = [
            f"{space.replace('_', ' ')} {size_text(size, exact)}" for space, size in sorted(program.arenas.items())
        ]
        which = f"rank {self.rank} of {ranks}" if ranks > 1 else "one rank"
        counts = f"{len(program.commands):,} commands on {len(program.lanes)} lanes"
        return f"{which}: {counts}; {', '.join(arenas) or 'no memory'}"
