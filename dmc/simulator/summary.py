"""A simulation in a few figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from dmc.machine import cost_table_hash
from dmc.program import Collective
from dmc.simulator.critical_path import Contributor, contributors, critical_path
from dmc.simulator.memory import Profile, memory_over_time
from dmc.simulator.simulation import Simulation
from dmc.simulator.use import LaneUse, Waits, lane_use, waits


@dataclass(frozen=True)
class Summary:
    """Times in nanoseconds. ranks, played: the numbers of ranks in total and simulated.

    costs: the hash of the machine's figures. communication_share: the share of the step that is collectives on the
    critical path. waits, memory: one per simulated rank; lanes: each lane of each. stages: the axes along which ranks
    are stages of a pipeline.
    """

    machine: str
    costs: str
    ranks: int
    played: int
    commands: int
    step_ns: float
    communication_share: float
    contributors: tuple[Contributor, ...]
    waits: tuple[Waits, ...]
    lanes: tuple[LaneUse, ...]
    memory: tuple[Profile, ...]
    stages: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All figures as JSON values; memory only at the peak, not over time."""
        memory = [
            {"rank": each.rank, "arena": each.arena, "peak": each.peak, "at_peak": each.at_peak} for each in self.memory
        ]
        return {**asdict(replace(self, memory=())), "memory": memory}

    @property
    def exposed(self) -> Waits:
        """The rank whose computation waits longest for communication."""
        return max(self.waits, key=lambda rank: rank.communication)

    @property
    def idle_share(self) -> float:
        """The share of the step in which a rank does not compute, over all simulated ranks: a pipeline's bubble."""
        idle = sum(self.step_ns - rank.busy for rank in self.waits)
        return idle / (self.step_ns * len(self.waits)) if self.step_ns else 0.0

    @property
    def most_idle(self) -> Waits:
        """The rank that computes for the shortest time."""
        return min(self.waits, key=lambda rank: rank.busy)

    @property
    def fullest(self) -> Profile:
        """The rank with the largest peak of device memory."""
        return max(self.memory, key=lambda rank: (rank.peak, rank.arena))


def summarise(simulation: Simulation) -> Summary:
    """The figures of a simulation."""
    path = critical_path(simulation)
    moving = sum(span.end - span.start for span in path if isinstance(simulation.work(span), Collective))
    return Summary(
        machine=simulation.machine.name,
        costs=cost_table_hash(simulation.machine),
        ranks=simulation.ranks,
        played=len(simulation.programs),
        commands=len(simulation.spans),
        step_ns=simulation.step_ns,
        communication_share=moving / simulation.step_ns if path else 0.0,
        contributors=contributors(simulation),
        waits=waits(simulation),
        lanes=lane_use(simulation),
        memory=tuple(memory_over_time(simulation, rank) for rank in simulation.programs),
        stages=simulation.job.stages,
    )
