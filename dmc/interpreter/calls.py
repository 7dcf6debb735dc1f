"""Calls of the programs of a step, one after the other, in memory that is kept as the executors keep it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle

import numpy as np

from dmc.dtypes import Array
from dmc.interpreter.interpreter import run_in
from dmc.interpreter.kernels import KernelFunction
from dmc.interpreter.memory import Memory
from dmc.interpreter.slots import Ports, fill_inputs, fill_state, outputs_of, state_of
from dmc.program import IN_FLIGHT, KEPT, Job, Space

# The number of a program, and what the host passes to each rank.
Call = tuple[int, Sequence[Ports]]
# What each rank gives, by name.
Outputs = list[dict[str, Array]]


def run_calls(
    jobs: Sequence[Job],
    kernels: Sequence[Mapping[str, KernelFunction]],
    state: Sequence[Ports],
    calls: Sequence[Call],
    seed: int,
) -> tuple[list[Outputs], Outputs]:
    """The outputs of each call of the programs over one state, and the state after all of them.

    All calls share the arenas of `KEPT`; of the others each call in flight has its own. The host is as early and as
    late as it may be: the inputs of a call are there before the call before it runs, and the outputs of a call are read
    only when its memory is needed again. kernels: of each program. Arguments and errors are otherwise those of `run`.
    """
    noise = np.random.default_rng(seed)
    kept = [Memory.of(sizes, noise) for sizes in _kept(jobs)]
    programs = [_Program(*each, kept, noise) for each in zip(jobs, kernels, strict=True)]
    for program, memory, given in zip(jobs[0].programs, programs[0].memories[0], state, strict=True):
        fill_state(program, memory, given)
    outputs: list[Outputs] = [[] for _ in calls]
    ready: list[Callable[[int], None]] = []
    for number, (which, inputs) in enumerate(calls):
        ready.append(programs[which].prepare(number, inputs, outputs))
        if number:
            ready[number - 1](seed + number)
    ready[-1](seed + len(calls))
    for each in programs:
        each.read(outputs)
    return outputs, [state_of(*pair) for pair in zip(jobs[0].programs, programs[0].memories[0], strict=True)]


@dataclass
class _Program:
    """A program with its memory for each call in flight."""

    job: Job
    kernels: Mapping[str, KernelFunction]
    kept: Sequence[Memory]
    noise: np.random.Generator
    # The calls whose outputs have not been read, by flight.
    open: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        self.memories = [list(self._flight()) for _ in range(IN_FLIGHT)]
        self._turns = cycle(range(IN_FLIGHT))

    def prepare(self, number: int, inputs: Sequence[Ports], outputs: list[Outputs]) -> Callable[[int], None]:
        """What runs the next call with a seed, after filling its memory and reading what its last call has left."""
        flight = next(self._turns)
        if flight in self.open:
            outputs[self.open[flight]] = self._outputs(flight)
        self.open[flight] = number
        memories = self.memories[flight]
        for program, memory, given in zip(self.job.programs, memories, inputs, strict=True):
            fill_inputs(program, memory, given)
        return partial(run_in, self.job, self.kernels, memories)

    def read(self, outputs: list[Outputs]) -> None:
        """Reads all that has not been read."""
        for flight, number in self.open.items():
            outputs[number] = self._outputs(flight)

    def _outputs(self, flight: int) -> Outputs:
        return [outputs_of(*pair) for pair in zip(self.job.programs, self.memories[flight], strict=True)]

    def _flight(self) -> Iterator[Memory]:
        for program, kept in zip(self.job.programs, self.kept, strict=True):
            own: dict[Space, int] = {space: size for space, size in program.arenas.items() if space not in KEPT}
            yield kept.beside(Memory.of(own, self.noise))


def _kept(jobs: Sequence[Job]) -> Iterator[dict[Space, int]]:
    """For each rank the sizes of the arenas that all programs share: each as large as the largest needs it."""
    for programs in zip(*(job.programs for job in jobs), strict=True):
        sizes: dict[Space, int] = {}
        for arenas in [program.arenas for program in programs]:
            sizes |= {space: max(size, sizes.get(space, 0)) for space, size in arenas.items() if space in KEPT}
        yield sizes
