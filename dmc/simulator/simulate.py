"""Simulating a job on a machine."""

from __future__ import annotations

from dmc.machine import Machine
from dmc.program import Job
from dmc.simulator.folding import folded
from dmc.simulator.player import Player
from dmc.simulator.population import Grown, Population, everyone, grown
from dmc.simulator.simulation import Simulation


def simulate(
    job: Job, machine: Machine, ranks: int | None = None, axis: str | None = None, *, fold: bool = False
) -> Simulation:
    """Simulates one step of `job` on `machine`; deterministic.

    The model: each lane runs its commands in order; `Record` and `Await` take no time; a collective begins when all its
    members have reached it and ends for all at once; issuing takes no time, since a step is replayed as one graph;
    users of a shared link or device slow each other down (`dmc.simulator.rates`). The step begins on all ranks at once
    with all lanes idle, and ends when the last is done; steps do not overlap. About linear in the number of commands.

    ranks: None simulates every rank of the job, whatever they do; with `fold`, of ranks that do the same at the same
    time only one, with the same times (`dmc.simulator.folding`). More ranks than planned grow its axis `axis` ("dp",
    or the only one). This assumes

    * that replicas along the axis do the same at the same time, which is checked, so that one of them is simulated; no
      rank is slower than another;
    * weak scaling: each rank has the batch it was planned for, and its kernels, moves and memory are as planned. What
      the plan splits along the axis (ZeRO) would be smaller on more ranks, so memory and updates are overestimated;
    * that a collective along the axis has correspondingly more members, and its larger side as many bytes as planned
      (an all-reduce: the gradients; a gather: what is whole after it); bucket sizes are as planned;
    * that rank r is on node r // ranks_per_node, with the mesh's axes in their order, the last one within a node first;
      networks between nodes do not block.

    Raises DmcError if lanes wait for each other forever, if the machine lacks the ranks, a link or a rate, and if the
    job cannot grow this way.
    """
    wanted = job.size if ranks is None else ranks
    machine.check_ranks(wanted)
    population = _population(job, machine, wanted, axis, fold)
    spans = Player(job, machine, population).play()
    axis_grown = list(job.mesh)[population.axis] if isinstance(population, Grown) else None
    return Simulation(machine, job, population.ranks, population.copies, population.programs, spans, axis_grown)


def _population(job: Job, machine: Machine, ranks: int, axis: str | None, fold: bool) -> Population:
    if ranks != job.size:
        return grown(job, machine, ranks, axis)
    return folded(job, machine) if fold else everyone(job)
