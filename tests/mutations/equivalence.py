"""Whether a job still means what another means: without `dmc.proof`, by brute force and by running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product

import numpy as np

from dmc.dtypes import Array, numpy_type
from dmc.errors import DmcError
from dmc.interpreter import Deadlock, mixing_kernels, run
from dmc.program import Await, Collective, Job, Program, Range, Record, accesses

# What each rank's host finds after a step, as bytes by name.
Outcome = list[dict[str, bytes]]
# A command by its rank and its place there.
Place = tuple[int, int]

# The ranges that a command reads, and those that it writes.
_Touched = tuple[tuple[Range, ...], tuple[Range, ...]]

SEEDS = (0, 1, 2)
HOST = ("control", "batch")


def outcome(job: Job, seed: int, held: Mapping[Place, Place] | None = None) -> Outcome:
    """What one step gives on made-up state and inputs. Raises what `dmc.interpreter.run` does."""
    state, inputs = ([_ports(program, of_host) for program in job.programs] for of_host in (False, True))
    given = run(job, mixing_kernels(job), state, inputs, seed, held=held)
    pairs = zip(*given, strict=True)
    return [{name: array.tobytes() for name, array in (outputs | after).items()} for outputs, after in pairs]


def difference(job: Job, mutant: Job) -> str:
    """What is wrong with a mutant: a race, a run that ends otherwise or not at all. "" where it means the same."""
    if found := next(races(mutant), None):
        return f"a race: rank, command and command are {found}"
    if found := next(at_once(mutant), None):
        return f"two communicators of the same ranks at once: rank, command and command are {found}"
    expected = outcome(job, 0)
    for seed in SEEDS:
        try:
            if outcome(mutant, seed) != expected:
                return f"another result with seed {seed}"
        except DmcError as error:
            return str(error)
    return ""


def shows(job: Job, mutant: Job) -> bool:
    """Whether an interleaving of a mutant, in which a racing command runs before the one it should follow, differs."""
    expected = outcome(job, 0)
    for rank, first, second in races(mutant):
        try:
            if outcome(mutant, 0, {(rank, first): (rank, second)}) != expected:
                return True
        except Deadlock:
            # Another rank orders the two: not the race to look at.
            continue
    return False


def races(job: Job) -> Iterator[tuple[int, int, int]]:
    """Every two commands of one rank that touch the same bytes, one writing, and that no path of the rank orders.

    All pairs, and the transitive closure of the order as bit sets.
    """
    for program in job.programs:
        before = _before(program)
        touched = [accesses(command) for command in program.commands]
        for first, second in combinations(range(len(touched)), 2):
            if not before[second] >> first & 1 and _conflict(touched[first], touched[second]):
                yield program.rank, first, second


def at_once(job: Job) -> Iterator[tuple[int, int, int]]:
    """Every two movements of a rank that share two ranks or more, and that no path of the rank orders."""
    for program in job.programs:
        before = _before(program)
        parts = [(i, each) for i, each in enumerate(program.commands) if isinstance(each, Collective)]
        for (first, one), (second, other) in combinations(parts, 2):
            shared = _members(program.rank, one) & _members(program.rank, other)
            if len(shared) > 1 and not before[second] >> first & 1:
                yield program.rank, first, second


def _members(rank: int, command: Collective) -> set[int]:
    is_message = command.kind in ("send", "recv")
    return {rank, command.ranks[command.peer or 0]} if is_message else set(command.ranks)


def _before(program: Program) -> list[int]:
    """For each command those that must have ended before it begins, as bits."""
    before: list[int] = []
    last: dict[int, int] = {}
    recorded: dict[int, int] = {}
    for index, command in enumerate(program.commands):
        waits = [last[command.lane]] if command.lane in last else []
        if isinstance(command, Await):
            waits.append(recorded[command.event])
        bits = 0
        for each in waits:
            bits |= before[each] | 1 << each
        before.append(bits)
        last[command.lane] = index
        if isinstance(command, Record):
            recorded[command.event] = index
    return before


def _conflict(one: _Touched, other: _Touched) -> bool:
    (reads, writes), (others_reads, others_writes) = one, other
    pairs = [*product(writes, (*others_reads, *others_writes)), *product(reads, others_writes)]
    return any(mine.overlaps(theirs) for mine, theirs in pairs)


def _ports(program: Program, of_host: bool) -> dict[str, Array]:
    """Arrays for a rank's inputs, or for its state: small whole numbers that depend on the rank."""
    random = np.random.default_rng(program.rank + 1)
    return {
        slot.name: random.integers(0, 2 if slot.dtype == "i1" else 64, slot.shape).astype(numpy_type(slot.dtype))
        for slot in program.slots
        if slot.role != "output" and (slot.role in HOST) == of_host
    }
