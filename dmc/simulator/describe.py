"""Why a command ran when it did."""

from __future__ import annotations

from collections.abc import Mapping

from dmc.program import Collective, Work
from dmc.program.describe import full_title_of
from dmc.program.labels import SEPARATOR
from dmc.simulator.simulation import Simulation, Span


def began_after(simulation: Simulation, span: Span) -> str:
    """Why it began when it did, as a clause: "after update on lane compute"."""
    cause = simulation.cause(span)
    if cause is None:
        return "with the step"
    lane = simulation.programs[cause.rank].lanes[cause.lane].name
    where = f"lane {lane}" if cause.rank == span.rank else f"lane {lane} of rank {cause.rank}"
    return f"after {full_title_of(simulation.work(cause))} on {where}"


def asked_for_by(work: Work, whys: Mapping[str, str]) -> str:
    """What required a movement between ranks, by the names in its label; a bucket's has several. "" if unknown."""
    if not isinstance(work, Collective):
        return ""
    found = [whys[part] for part in work.label.split(SEPARATOR) if whys.get(part)]
    return SEPARATOR.join(dict.fromkeys(found))
