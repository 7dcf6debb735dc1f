"""Whether a changed plan is refused, and whether one that is not computes what the plan did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dmc.dtypes import Array, numpy_type
from dmc.errors import ArtifactError, DmcError, InputError, ProofError
from dmc.interpreter import Call, KernelFunction, mixing_kernels, run_calls
from dmc.program import HOST_ROLES, STATE_ROLES, Job, Program
from dmc.program.dataflow import Dataflow
from dmc.program.sizes import tensor_bytes
from dmc.proof import verify
from dmc.proof.expected import expected_of
from dmc.proof.meshes import mesh_of
from tests.mutations.sorts import Planned

# Who refuses a mutant that the proof accepts: whoever reads it, or puts state and inputs into its slots.
READ, LOADED = "read", "loaded"
ACCEPTED = ""
SEEDS = (0, 1)
# The programs that are called, of as many as there are.
CALLS = {1: (0, 0, 0), 2: (0, 1, 0, 1, 0), 3: (0, 1, 0, 2, 1, 0, 2)}

Outcome = tuple[list[list[dict[str, bytes]]], list[dict[str, bytes]]]


@dataclass(frozen=True)
class Original:
    """A plan, with what the host passes to it and what it then computes."""

    planned: Planned

    @cached_property
    def kernels(self) -> list[Mapping[str, KernelFunction]]:
        """The code of each program, which a changed plan does not change."""
        pairs = zip(self.planned.jobs, self.planned.dataflows, strict=True)
        return [_kernels(job, dataflow) for job, dataflow in pairs]

    @cached_property
    def expected(self) -> Outcome:
        """What all calls give, which does not depend on the order in which lanes run."""
        outcomes = [self._outcome(self.planned.jobs, seed) for seed in SEEDS]
        assert all(each == outcomes[0] for each in outcomes), "the plan has a race"
        return outcomes[0]

    def verdict(self, number: int, mutant: Job) -> str:
        """Who refuses the plan with another job in one place; `ACCEPTED` where nobody does.

        Raises AssertionError where it is accepted and computes something else, and whatever else is no DmcError.
        """
        jobs = [*self.planned.jobs]
        try:
            jobs[number] = Job.from_bytes(mutant.to_bytes())
        except ArtifactError:
            return READ
        try:
            verify(jobs[number], dataflow=self.planned.dataflows[number])
        except ProofError as error:
            return error.property
        if any(jobs[0].state_apart(other) is not None for other in jobs[1:]):
            return LOADED
        for seed in SEEDS:
            try:
                outcome = self._outcome(jobs, seed)
            except InputError:
                return LOADED
            except DmcError as error:
                raise AssertionError(f"is accepted, and cannot be executed: {error}") from error
            assert outcome == self.expected, f"is accepted, and computes something else with seed {seed}"
        return ACCEPTED

    def _outcome(self, jobs: Sequence[Job], seed: int) -> Outcome:
        return calls_of(self.planned.jobs, jobs, seed, self.kernels)


def calls_of(
    originals: Sequence[Job],
    jobs: Sequence[Job],
    seed: int = 0,
    kernels: Sequence[Mapping[str, KernelFunction]] | None = None,
) -> Outcome:
    """What calls of the programs `jobs` give, with kernels, state and inputs made for `originals`."""
    code = [mixing_kernels(job) for job in originals] if kernels is None else kernels
    state = [_arrays(program, STATE_ROLES, 0) for program in originals[0].programs]
    # Each call has inputs of its own.
    calls: list[Call] = [
        (which, [_arrays(program, HOST_ROLES, number + 1) for program in originals[which].programs])
        for number, which in enumerate(CALLS[len(originals)])
    ]
    outputs, after = run_calls(jobs, code, state, calls, seed)
    return [[*map(_bytes, each)] for each in outputs], [*map(_bytes, after)]


def _kernels(job: Job, dataflow: Dataflow) -> Mapping[str, KernelFunction]:
    """Kernels whose results depend on all that they read: not on what is between the members of a bucket."""
    gaps: dict[str, set[tuple[int, int, int]]] = {name: set() for name in job.kernels}
    expected = expected_of(dataflow, mesh_of(job))
    for kernel in [kernel for calls in expected.calls.values() for kernel in calls]:
        name = kernel.call.function
        for i, (value, operand) in enumerate(zip(kernel.operands, job.kernels[name].reads, strict=True)):
            place = 0
            for whole, _, length in expected.values.segments(value, tensor_bytes(operand.dtype, operand.shape)):
                gaps[name] |= {(i, place, place + length)} if whole == expected.values.unwritten else set()
                place += length
    return {name: _without(gaps[name], kernel) for name, kernel in mixing_kernels(job).items()}


def _without(gaps: Iterable[tuple[int, int, int]], kernel: KernelFunction) -> KernelFunction:
    def run(operands: list[Array]) -> list[Array]:
        for i, first, end in gaps:
            operands[i].reshape(-1).view(np.uint8)[first:end] = 0
        return kernel(operands)

    return run


def _bytes(arrays: Mapping[str, Array]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def _arrays(program: Program, roles: Sequence[str], seed: int) -> dict[str, Array]:
    """What the host passes: small whole numbers."""
    random = np.random.default_rng((seed, program.rank))
    return {
        slot.name: random.integers(0, 2 if slot.dtype == "i1" else 64, slot.shape).astype(numpy_type(slot.dtype))
        for slot in program.slots
        if slot.role in roles
    }
