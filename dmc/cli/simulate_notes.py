"""Caveats of a simulation: the machine and the number of ranks for which the step was planned, and its inputs."""

from __future__ import annotations

from collections.abc import Iterator

from dmc.machine import Machine, cost_table_hash, machine, machine_names
from dmc.machine.cost import move_ns
from dmc.program import DEVICE, PINNED_HOST, STAGED
from dmc.program.signature import Signature
from dmc.program.sizes import size_text
from dmc.runtime.files.artifact import Artifact
from dmc.simulator import Simulation


def notes(artifact: Artifact, simulation: Simulation) -> Iterator[str]:
    """Differences between the plan and what is simulated, as sentences; empty if there are none."""
    yield from _of_machine(artifact, simulation.machine)
    yield from _of_ranks(artifact.signature, simulation)
    yield from _of_inputs(simulation)


def _of_machine(artifact: Artifact, played: Machine) -> Iterator[str]:
    planned = artifact.certificate.cost_table
    if not planned or planned == cost_table_hash(played):
        return
    known = [name for name in machine_names() if cost_table_hash(machine(name)) == planned]
    name = known[0] if known else "a machine with figures that are not known here"
    hint = f'compile with machine="{played.name}" to plan for it'
    yield f"planned for {name}: order and overlap suit that machine; {hint}"


def _of_inputs(simulation: Simulation) -> Iterator[str]:
    """They are copied while the step before runs, which the simulation does not show."""
    size = simulation.job.peaks().get(STAGED, 0)
    ns = move_ns(simulation.machine, PINNED_HOST, DEVICE, size) if size else 0.0
    if ns > simulation.step_ns:
        fact = f"copying {size_text(size)} of inputs to the device takes {ns / 1e6:.2f} ms, longer than the step"
        yield f"{fact}: steps follow one another as fast as their inputs"


def _of_ranks(signature: Signature, simulation: Simulation) -> Iterator[str]:
    if (axis := simulation.grown) is None:
        return
    ranks, size = simulation.job.size, simulation.job.mesh[axis]
    timed = f"collectives are timed for groups along {axis} of {simulation.copies:,} members instead of {size:,}"
    yield f"planned for {ranks:,} ranks: {timed}; what a rank computes, copies and holds is as planned"
    state = signature.state
    split = [spec for spec in state if any(use[0] == axis for uses in signature.splits_of(spec) for use in uses)]
    if split:
        fact = f"{len(split):,} of {len(state):,} tensors of state are split along {axis}"
        yield f"{fact}: more ranks would each hold and update less, so memory and updates are overestimated"
