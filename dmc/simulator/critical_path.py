"""The chain of work that decides how long a step takes: shortening anything else alone does not shorten the step."""

from __future__ import annotations

from dataclasses import dataclass

from dmc.simulator.kinds import kind_of
from dmc.simulator.simulation import Simulation, Span


@dataclass(frozen=True)
class Contributor:
    """Work of one kind and label on the critical path: how much of it, and its share of the step in [0, 1]."""

    kind: str
    label: str
    count: int
    ns: float
    share: float


def critical_path(simulation: Simulation) -> tuple[Span, ...]:
    """From the start of the step to its end, each beginning when the one before it ends.

    Of several that end the step, that of the lowest rank.
    """
    if not simulation.spans:
        return ()
    return tuple(simulation.chain(simulation.last(min(simulation.programs))))[::-1]


def contributors(simulation: Simulation) -> tuple[Contributor, ...]:
    """The critical path by kind and label, most first."""
    times: dict[tuple[str, str], list[float]] = {}
    for span in critical_path(simulation):
        work = simulation.work(span)
        times.setdefault((kind_of(simulation.job, work), work.label), []).append(span.end - span.start)
    step_ns = simulation.step_ns
    found = [Contributor(*key, len(own), sum(own), sum(own) / step_ns) for key, own in times.items()]
    return tuple(sorted(found, key=lambda contributor: -contributor.ns))
