"""The chain of work that determines the step time: shortening anything else does not shorten the step."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dmc.program.describe import kind_of, title_of
from dmc.simulator.simulation import Simulation, Span


@dataclass(frozen=True)
class Contributor:
    """Work of one kind on the critical path: how much of it, and its share of the step in [0, 1].

    label: its origin, or its name; differing numbers, such as those of layers, are `*`.
    """

    kind: str
    label: str
    count: int
    ns: float
    share: float


def critical_path(simulation: Simulation) -> tuple[Span, ...]:
    """From the start of the step to its end, each beginning when the one before it ends.

    If several end the step, that of the lowest rank.
    """
    if not simulation.spans:
        return ()
    return tuple(simulation.chain(simulation.last(min(simulation.programs))))[::-1]


def contributors(simulation: Simulation) -> tuple[Contributor, ...]:
    """The critical path by kind and label, largest first; layers that differ only in their numbers are merged."""
    alike: dict[tuple[str, str], list[Span]] = {}
    for span in critical_path(simulation):
        work = simulation.work(span)
        alike.setdefault((kind_of(simulation.job, work), re.sub(r"\d+", "*", title_of(work))), []).append(span)
    found = [_contributor(simulation, *key, own) for key, own in alike.items()]
    return tuple(sorted(found, key=lambda contributor: -contributor.ns))


def _contributor(simulation: Simulation, kind: str, pattern: str, spans: list[Span]) -> Contributor:
    labels = {title_of(simulation.work(span)) for span in spans}
    ns = sum(span.end - span.start for span in spans)
    return Contributor(kind, labels.pop() if len(labels) == 1 else pattern, len(spans), ns, ns / simulation.step_ns)
