"""A simulated step beside a measured one: per lane, per kernel and movement, and as one trace."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dmc.errors import ArtifactError
from dmc.program import Collective, Job, Launch, Work
from dmc.program.describe import full_title_of, kind_of, name_of
from dmc.program.profile import Profile, Timed
from dmc.simulator.simulation import Simulation, Span
from dmc.simulator.trace import trace

_US = 1e-3


@dataclass(frozen=True)
class Row:
    """Nanoseconds of commands together. by: a lane's rank, a kernel's implementation, or a movement's kind.

    label: the origin in the model of the first.
    """

    name: str
    by: str
    label: str
    count: int
    predicted: float
    measured: float

    @property
    def off(self) -> float:
        """By how much the prediction is too long."""
        return self.predicted - self.measured

    @property
    def error(self) -> float:
        """The same, as a share of what was measured."""
        return self.off / self.measured if self.measured else 0.0


@dataclass(frozen=True)
class Comparison:
    """step: of the device, or of the host where the device has no clock. lanes: how long each is busy. commands: by
    kernel and kind of movement, those that are off most first; both empty without measured commands."""

    step: Row
    lanes: tuple[Row, ...]
    commands: tuple[Row, ...]


def compare(simulation: Simulation, profile: Profile) -> Comparison:
    """Raises ArtifactError if the profile is of another plan."""
    job = simulation.job
    if profile.plan != job.digest():
        raise ArtifactError("the profile", "is of another plan", hint="run this file with dmc run --profile")
    pairs = list(_pairs(simulation, profile))
    step = Row("step", simulation.machine.name, "", 1, simulation.step_ns, step_ns(profile))
    lanes = _rows(pairs, lambda span, work: (simulation.programs[span.rank].lanes[span.lane].name, f"rank {span.rank}"))
    commands = _rows(pairs, lambda span, work: _kernel(job, work))
    return Comparison(step, tuple(lanes), tuple(sorted(commands, key=lambda row: -abs(row.off))))


def step_ns(profile: Profile) -> float:
    """A measured step. Raises ArtifactError for a profile without any."""
    if profile.device_ns is not None:
        return profile.device_ns
    if not profile.steps_ns:
        raise ArtifactError("the profile", "has no measured step", hint="run at least two steps with dmc run --profile")
    # What else runs on the machine only makes a step longer.
    return min(profile.steps_ns)


def both(simulation: Simulation, profile: Profile) -> str:
    """One trace with what was predicted and, under it, what was measured; see `trace`."""
    ranks = sorted(simulation.programs)
    shown = json.loads(trace(simulation, ranks))
    count = simulation.ranks
    events: list[dict[str, Any]] = [_said(event, "predicted") for event in shown["traceEvents"]]
    for rank in sorted({timed.rank for timed in profile.commands}):
        lanes = [each for each in shown["traceEvents"] if each["ph"] == "M" and each["pid"] == rank]
        events += [_said({**each, "pid": count + rank}, "measured") for each in lanes]
    for timed in profile.commands:
        events.append(_measured(simulation.job, timed, count))
    return json.dumps({**shown, "traceEvents": events}, ensure_ascii=False)


def total(rows: Sequence[Row]) -> Row:
    """Several rows as one."""
    predicted, measured = sum(row.predicted for row in rows), sum(row.measured for row in rows)
    return Row(f"{len(rows)} others", "", "", sum(row.count for row in rows), predicted, measured)


def _said(event: dict[str, Any], how: str) -> dict[str, Any]:
    if event["name"] != "process_name":
        return event
    return {**event, "args": {"name": f"{event['args']['name']}, {how}"}}


def _measured(job: Job, timed: Timed, ranks: int) -> dict[str, Any]:
    work = _work(job, timed.rank, timed.command)
    where = {"pid": ranks + timed.rank, "tid": work.lane}
    when = {"ts": timed.start * _US, "dur": (timed.end - timed.start) * _US}
    arguments = {"module": work.label, "what": name_of(work), "command": timed.command}
    return {"ph": "X", "name": full_title_of(work), "cat": kind_of(job, work), **where, **when, "args": arguments}


def _pairs(simulation: Simulation, profile: Profile) -> Iterator[tuple[Span, Work, float, float]]:
    """Each command that was simulated and measured, with both times."""
    measured = {(timed.rank, timed.command): timed.end - timed.start for timed in profile.commands}
    for span in simulation.spans:
        took = measured.get((span.rank, span.command))
        if took is not None:
            work = simulation.work(span)
            # A rank that waits for the others is in the movement.
            begin = span.arrived if isinstance(work, Collective) else span.start
            yield span, work, span.end - begin, took


def _rows(
    pairs: Iterable[tuple[Span, Work, float, float]], name: Callable[[Span, Work], tuple[str, str]]
) -> Iterator[Row]:
    groups: dict[tuple[str, str], list[tuple[Work, float, float]]] = defaultdict(list)
    for span, work, predicted, took in pairs:
        groups[name(span, work)].append((work, predicted, took))
    for (title, by), found in groups.items():
        yield Row(title, by, found[0][0].label, len(found), *_sums(found))


def _sums(found: Sequence[tuple[Work, float, float]]) -> tuple[float, float]:
    return sum(predicted for _, predicted, _ in found), sum(took for _, _, took in found)


def _kernel(job: Job, work: Work) -> tuple[str, str]:
    if isinstance(work, Launch):
        return work.kernel, job.kernels[work.kernel].implementation
    return name_of(work), kind_of(job, work)


def _work(job: Job, rank: int, command: int) -> Work:
    found = job.programs[rank].commands[command]
    assert isinstance(found, Work), "only work is timed"
    return found
