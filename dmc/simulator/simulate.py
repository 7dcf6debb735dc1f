"""Playing a job on a machine."""

from __future__ import annotations

from dmc.machine import Machine
from dmc.program import Job
from dmc.simulator.player import Player
from dmc.simulator.population import Grown, everyone, grown
from dmc.simulator.simulation import Simulation


def simulate(job: Job, machine: Machine, ranks: int | None = None, axis: str | None = None) -> Simulation:
    """Plays one step of `job` on `machine`; the same job and machine always give the same result.

    The model: each lane runs its commands in order; `Record` and `Await` take no time; a collective begins when all its
    members have come to it and ends for all at once; issuing takes no time, for a step is replayed as one graph; what
    shares a link or a device slows each other down (`dmc.simulator.rates`). The step begins with all lanes idle at once
    on all ranks, and ends when the last is done; steps do not overlap. About linear in the number of commands.

    ranks: None plays every rank of the job, whatever they do. More ranks than the job was planned for let its axis
    `axis` ("dp", or the only one) grow. This assumes

    * that replicas along the axis do the same at the same time, which is checked, so that one of them is played; no
      rank is slower than another;
    * weak scaling: each rank has the batch it was planned for, and its kernels, moves and memory are as planned. What
      the plan splits along the axis (ZeRO) would be smaller on more ranks, so memory and updates come out too large;
    * that a collective along the axis has as many more members, and its larger side as many bytes as planned (an
      all-reduce: the gradients; a gather: what is whole after it); bucket sizes are as planned;
    * that rank r is on node r // ranks_per_node, with the mesh's axes in their order, the last one within a node first;
      networks between nodes do not block.

    Raises DmcError where lanes wait for each other for ever, where the machine lacks the ranks, a link or a rate, and
    where the job cannot grow so.
    """
    population = everyone(job) if ranks in (None, len(job.programs)) else grown(job, machine, ranks or 0, axis)
    machine.check_ranks(population.ranks)
    spans = Player(job, machine, population).play()
    axis_grown = list(job.mesh)[population.axis] if isinstance(population, Grown) else None
    return Simulation(machine, job, population.ranks, population.copies, population.programs, spans, axis_grown)
