"""How long each lane is busy, and what a rank's computation waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dmc.program import Collective, Launch
from dmc.simulator.simulation import Simulation, Span


@dataclass(frozen=True)
class LaneUse:
    """A lane, in nanoseconds: `busy` running, `waiting` in a collective for its other members, `idle` otherwise."""

    rank: int
    lane: str
    busy: float
    waiting: float
    idle: float


@dataclass(frozen=True)
class Waits:
    """A rank's step in nanoseconds: its compute lanes are either running or all waiting.

    An interval in which no compute lane of the rank runs ends when a command begins on one, or with the step. Its
    causes are traced back to the beginning of the interval: `communication` is the part covered by collectives,
    `copies` by moves, `others` by computation of other ranks that this one waits for. The chain has no gaps, so the
    four parts add up to the step. `communication` is the exposed communication.
    """

    rank: int
    busy: float
    communication: float
    copies: float
    others: float


def lane_use(simulation: Simulation) -> tuple[LaneUse, ...]:
    """Each lane of each simulated rank."""
    uses: list[LaneUse] = []
    for rank, program in simulation.programs.items():
        busy, waiting = [0.0] * len(program.lanes), [0.0] * len(program.lanes)
        for span in simulation.by_rank[rank]:
            busy[span.lane] += span.end - span.start
            waiting[span.lane] += span.start - span.arrived
        for lane, ran, waited in zip(program.lanes, busy, waiting, strict=True):
            uses.append(LaneUse(rank, lane.name, ran, waited, simulation.step_ns - ran - waited))
    return tuple(uses)


def waits(simulation: Simulation) -> tuple[Waits, ...]:
    """What each simulated rank waits for."""
    return tuple(_waits(simulation, rank) for rank in simulation.programs)


def _waits(simulation: Simulation, rank: int) -> Waits:
    parts = {"communication": 0.0, "copies": 0.0, "others": 0.0}
    idle = 0.0
    for start, end, cause in _gaps(simulation, rank):
        idle += end - start
        for span in simulation.chain(cause):
            if span.end <= start:
                break
            parts[_part(simulation, span)] += span.end - max(span.start, start)
    return Waits(rank, simulation.step_ns - idle, **parts)


def _gaps(simulation: Simulation, rank: int) -> Iterator[tuple[float, float, Span | None]]:
    """The intervals in which no compute lane of a rank runs: start, end, and the span whose end ended the wait."""
    compute = {number for number, lane in enumerate(simulation.programs[rank].lanes) if lane.queue == "compute"}
    done = 0.0
    for span in simulation.by_rank[rank]:
        if span.lane not in compute:
            continue
        if span.start > done:
            yield done, span.start, simulation.cause(span)
        done = max(done, span.end)
    if simulation.step_ns > done:
        yield done, simulation.step_ns, simulation.last(rank)


def _part(simulation: Simulation, span: Span) -> str:
    match simulation.work(span):
        case Collective():
            return "communication"
        case Launch():
            return "others"
        case _:
            return "copies"
