"""Runs one step of a job: every lane of every rank is a task, and so is every movement between ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from dmc.dtypes import Array
from dmc.errors import DmcError
from dmc.interpreter.interleaving import Interleaving, Task
from dmc.interpreter.kernels import KernelFunction
from dmc.interpreter.memory import Memory
from dmc.interpreter.movements import Movement, movement_of, told
from dmc.interpreter.slots import Ports, fill_inputs, fill_state, outputs_of, state_of
from dmc.interpreter.waits import Deadlock, Delivered, Done, Place, Signalled, story
from dmc.interpreter.work import compute, move_between
from dmc.program import Await, Collective, Job, Launch, Move, Program, Record

# Called for each launch, a rank and a command index, with its results.
Watch = Callable[[Place, Sequence[Array]], None]


def run(
    job: Job,
    kernels: Mapping[str, KernelFunction],
    state: Sequence[Ports],
    inputs: Sequence[Ports],
    seed: int,
    *,
    held: Mapping[Place, Place] | None = None,
    watch: Watch | None = None,
) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    """One step of a job in one interleaving: the outputs of each rank by name, and its new state.

    state, inputs (controls and batch): for each rank, arrays by the names of its slots, of the slots' types. Memory
    outside slots is noise that depends on the seed, and so are a command's targets until it ends. The same seed gives
    the same bits; a correct job gives the same bits with every seed. held: the command at a key does not begin before
    the one at its value is done (each a rank and a command index), so that one order of two commands can be forced.
    watch: called with the results of each launch.

    Raises Deadlock, saying who waits for whom; InputError for arrays that do not match; DmcError if a command cannot be
    executed.
    """
    noise = np.random.default_rng(seed)
    memories = [Memory.of(program.arenas, noise) for program in job.programs]
    for program, memory, before, given in zip(job.programs, memories, state, inputs, strict=True):
        fill_state(program, memory, before)
        fill_inputs(program, memory, given)
    run_in(job, kernels, memories, seed, held, watch)
    pairs = [*zip(job.programs, memories, strict=True)]
    return [outputs_of(*pair) for pair in pairs], [state_of(*pair) for pair in pairs]


def run_in(
    job: Job,
    kernels: Mapping[str, KernelFunction],
    memories: Sequence[Memory],
    seed: int,
    held: Mapping[Place, Place] | None = None,
    watch: Watch | None = None,
) -> None:
    """One step in the memory of each rank, in which state and inputs are; see `run`."""
    _Step(job, kernels, memories, held or {}, watch, Interleaving(Random(seed))).run()


@dataclass
class _Step:
    job: Job
    kernels: Mapping[str, KernelFunction]
    memories: Sequence[Memory]
    held: Mapping[Place, Place]
    watch: Watch | None
    interleaving: Interleaving
    # For each movement, the parts that ranks have reached.
    parts: dict[Movement, dict[int, Collective]] = field(default_factory=dict)
    # By rank and lane, its current command; finished lanes are not listed.
    places: dict[tuple[int, int], int] = field(default_factory=dict)

    def run(self) -> None:
        for program in self.job.programs:
            for lane, places in enumerate(_places_by_lane(program)):
                self.interleaving.spawn(self._lane(program, lane, places))
        self.interleaving.run()
        if self.interleaving.waiting:
            hint = "issue movements in the same order on all ranks, and record every awaited event"
            raise Deadlock(None, story(self.job, self.places, self.parts, self.held), hint)

    def _lane(self, program: Program, lane: int, places: Sequence[int]) -> Task:
        for place in places:
            self.places[program.rank, lane] = place
            if (other := self.held.get((program.rank, place))) is not None:
                yield Done(other)
            yield from self._command(program, place)
            self.interleaving.meet(Done((program.rank, place)))
            yield None
        self.places.pop((program.rank, lane), None)

    def _command(self, program: Program, place: int) -> Task:
        memory = self.memories[program.rank]
        match command := program.commands[place]:
            case Record():
                self.interleaving.meet(Signalled(program.rank, command.event))
            case Await():
                yield Signalled(program.rank, command.event)
            case Launch():
                yield from compute(
                    memory,
                    command.reads,
                    command.writes,
                    command.scratch,
                    lambda: self._launch(memory, command, (program.rank, place)),
                )
            case Move():
                source, target = command.source, command.target
                yield from compute(memory, [source], [target], None, lambda: [memory.view(source).copy()])
            case Collective():
                yield from self._take_part(program.rank, command)

    def _launch(self, memory: Memory, command: Launch, where: Place) -> Sequence[Array]:
        types = zip(command.reads, self.job.kernels[command.kernel].reads, strict=True)
        results = self.kernels[command.kernel](
            [memory.read(range_, type_.dtype, type_.shape) for range_, type_ in types]
        )
        if self.watch is not None:
            self.watch(where, results)
        return results

    def _take_part(self, rank: int, command: Collective) -> Task:
        movement = movement_of(rank, command)
        members, parts = movement[2], self.parts.setdefault(movement, {})
        if rank in parts:
            raise DmcError(told(command), f"rank {rank} takes part twice", "number movements one by one")
        parts[rank] = command
        if len(parts) == len(members):
            # The last to arrive starts it.
            self.interleaving.spawn(self._move(movement, parts))
        yield Delivered(movement)

    def _move(self, movement: Movement, parts: Mapping[int, Collective]) -> Task:
        yield from move_between(movement[2], parts, self.memories, self.interleaving.random)
        self.interleaving.meet(Delivered(movement))


def _places_by_lane(program: Program) -> list[list[int]]:
    places: list[list[int]] = [[] for _ in program.lanes]
    for place, command in enumerate(program.commands):
        places[command.lane].append(place)
    return places
