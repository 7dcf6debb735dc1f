"""A simulated step: what ran when on which lane of which rank, and what it had waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dmc.machine import Machine
from dmc.program import Job, Program, Work


@dataclass(frozen=True, slots=True)
class Span:
    """A launch, a move, or one rank's part in a collective. Times are in nanoseconds from the start of the step.

    index: that in `Simulation.spans`. rank, lane, command: its position in the program. arrived: when its lane reached
    it; a collective begins at `start`, when all of its members have. cause: the span whose end, at `start`, let it
    begin: the one before it on its lane, or the one behind the event or member that came last; None if it begins with
    the step.
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
    """A job simulated on a machine.

    ranks: the number of ranks in the result. programs: of the simulated ones, by rank; if ranks are equivalent, one
    represents `copies` of them. spans: in order of start. grown: the mesh axis that has `copies` ranks here and fewer
    in the job; None if all is as planned.
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
        """The spans of each rank, in order of start."""
        spans: dict[int, list[Span]] = {rank: [] for rank in self.programs}
        for span in self.spans:
            spans[span.rank].append(span)
        return {rank: tuple(own) for rank, own in spans.items()}

    def work(self, span: Span) -> Work:
        """The command of a span."""
        command = self.programs[span.rank].commands[span.command]
        assert isinstance(command, Work), "only work takes time"
        return command

    def cause(self, span: Span) -> Span | None:
        """The span whose end let this one begin."""
        return None if span.cause is None else self.spans[span.cause]

    def chain(self, span: Span | None) -> Iterator[Span]:
        """The span, its cause, the cause of that, and so on to the start of the step: without gaps."""
        while span is not None:
            yield span
            span = self.cause(span)

    def last(self, rank: int) -> Span | None:
        """The span that ends the step: one of this rank if there is one."""
        own = (span for span in self.by_rank[rank] if span.end == self.step_ns)
        return next(own, next((span for span in self.spans if span.end == self.step_ns), None))
