"""A step as it was played: what ran when on which lane of which rank, and what each thing had waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dmc.machine import Machine
from dmc.program import Job, Program, Work


@dataclass(frozen=True, slots=True)
class Span:
    """A launch, a move, or one rank's part in a collective. Times are in nanoseconds from the start of the step.

    index: its place in `Simulation.spans`. rank, lane, command: which one of whose program. arrived: when its lane came
    to it; a collective begins at `start`, when all of its members have. cause: the span whose end, at `start`, let it
    begin: the one before it on its lane, or the one behind the event or the member that came last; None for what
    begins with the step.
    """

    index: int
    rank: int
    lane: int
    command: int
    arrived: float
    start: float
    end: float
    cause: int | None


@dataclass(frozen=True)
class Simulation:
    """A job that was played on a machine.

    ranks: how many ranks the result speaks of. programs: of those that were played, by rank; where ranks are alike, one
    stands for `copies` of them. spans: in the order in which they began. grown: the axis of the mesh that has `copies`
    ranks here and fewer in the job; None where all is as planned.
    """

    machine: Machine
    job: Job
    ranks: int
    copies: int
    programs: dict[int, Program]
    spans: tuple[Span, ...]
    grown: str | None = None

    @cached_property
    def step_ns(self) -> float:
        """When the last rank is done."""
        return max((span.end for span in self.spans), default=0.0)

    @cached_property
    def by_rank(self) -> dict[int, tuple[Span, ...]]:
        """The spans of each rank, in the order in which they began."""
        spans: dict[int, list[Span]] = {rank: [] for rank in self.programs}
        for span in self.spans:
            spans[span.rank].append(span)
        return {rank: tuple(own) for rank, own in spans.items()}

    def work(self, span: Span) -> Work:
        """The command that a span is of."""
        command = self.programs[span.rank].commands[span.command]
        assert isinstance(command, Work), "only work takes time"
        return command

    def cause(self, span: Span) -> Span | None:
        """What ended when this began, and let it begin."""
        return None if span.cause is None else self.spans[span.cause]

    def chain(self, span: Span | None) -> Iterator[Span]:
        """The span, what it waited for, what that waited for, and so on to the start of the step: without gaps."""
        while span is not None:
            yield span
            span = self.cause(span)

    def last(self, rank: int) -> Span | None:
        """What ends the step: one of this rank where there is one."""
        own = (span for span in self.by_rank[rank] if span.end == self.step_ns)
        return next(own, next((span for span in self.spans if span.end == self.step_ns), None))
