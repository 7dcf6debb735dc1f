"""Mutations of what is read: all ranks alike, with ranges that exist and fit, but hold another value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from random import Random

from dmc.program import Collective, Command, Job, Launch, Move, Program, Range, Slice, Work, accesses
from tests.mutations.edits import on_all, places, replace, with_command, without
from tests.mutations.mutators import Change

STATE = ("parameter", "frozen", "buffer", "optimizer", "counter", "seed")


@dataclass(frozen=True)
class DataflowMutator:
    """A way to break a job that V11 must refuse; `change` gives None where a job has nothing to break so."""

    name: str
    change: Change


DATAFLOW_MUTATORS: list[DataflowMutator] = []


def _mutator(change: Change) -> Change:
    DATAFLOW_MUTATORS.append(DataflowMutator(change.__name__, change))
    return change


@_mutator
def swap_operands(job: Job, random: Random) -> Job | None:
    """A launch reads two operands of one size the other way round."""
    found = [
        (index, i, j)
        for index, launch in _launches(job.classes[0].program)
        for i, j in permutations(range(len(launch.reads)), 2)
        if i < j and _alike(launch.reads[i], launch.reads[j])
    ]
    if not found:
        return None
    index, i, j = random.choice(found)

    def change(launch: Launch) -> Launch:
        reads = list(launch.reads)
        reads[i], reads[j] = reads[j], reads[i]
        return replace(launch, reads=tuple(reads))

    return _with_launch(job, index, change)


@_mutator
def read_a_stale_buffer(job: Job, random: Random) -> Job | None:
    """A launch reads what another command wrote before."""
    program = job.classes[0].program
    found: list[tuple[int, int, Range]] = []
    written: list[Range] = []
    for index, command in enumerate(program.commands):
        if isinstance(command, Launch):
            found += [(index, i, old) for i, read in enumerate(command.reads) for old in written if _alike(read, old)]
        written += accesses(command)[1]
    return _with_operand(job, random, found)


@_mutator
def take_another_gradient(job: Job, random: Random) -> Job | None:
    """The update of a parameter takes what the update of another one of equal size takes in this place."""
    updates = list(_updates(job.classes[0].program))
    found = [
        (index, i, others.reads[i])
        for (index, launch), (_, others) in permutations(updates, 2)
        if launch.kernel == others.kernel
        for i, read in enumerate(launch.reads)
        if _alike(read, others.reads[i]) and not _is_slot(job.classes[0].program, others.reads[i])
    ]
    return _with_operand(job, random, found)


@_mutator
def take_the_state_of_another(job: Job, random: Random) -> Job | None:
    """A launch reads a slot of another name and equal size."""
    slots = [slot.range for slot in job.classes[0].program.slots if slot.role in STATE]
    found = [
        (index, i, other)
        for index, launch in _launches(job.classes[0].program)
        for i, read in enumerate(launch.reads)
        if read in slots
        for other in slots
        if _alike(read, other)
    ]
    return _with_operand(job, random, found)


@_mutator
def exchange_members_of_a_bucket(job: Job, random: Random) -> Job | None:
    """Two members of equal size are put in each other's place in what a collective takes."""
    program = job.classes[0].program
    sources = [each.source for each in program.commands if isinstance(each, Collective) and each.source is not None]
    puts = [
        (index, i, where)
        for index, command in enumerate(program.commands)
        for i, where in enumerate(accesses(command)[1])
        if isinstance(command, Launch | Move) and any(_is_inside(where, source) for source in sources)
    ]
    found = [(one, other) for one, other in permutations(puts, 2) if one < other and _alike(one[2], other[2])]
    if not found:
        return None
    one, other = random.choice(found)

    def change(program: Program) -> Program:
        for (index, i, _), (from_index, from_i, _) in ((one, other), (other, one)):
            where = accesses(job.programs[program.rank].commands[from_index])[1][from_i]
            program = with_command(program, index, _writing(program.commands[index], i, where))
        return program

    return on_all(job, change)


@_mutator
def leave_out_a_move(job: Job, random: Random) -> Job | None:
    """No rank copies what it should."""
    if not (found := places(job.classes[0].program, Move)):
        return None
    index = random.choice(found)
    return on_all(job, lambda program: without(program, [index]))


@_mutator
def launch_another_kernel(job: Job, random: Random) -> Job | None:
    """Another kernel with operands and results of the same types."""
    found = [
        (index, other.name)
        for index, launch in _launches(job.classes[0].program)
        for other in job.kernels.values()
        if other.name != launch.kernel and _fits(job, launch.kernel, other.name)
    ]
    if not found:
        return None
    index, name = random.choice(found)
    return _with_launch(job, index, lambda launch: replace(launch, kernel=name))


@_mutator
def read_the_slice_of_the_first(job: Job, random: Random) -> Job | None:
    """All ranks read what the first of their class reads."""
    return _with_slices(job, random, lambda each: ())


@_mutator
def read_slices_of_another_size(job: Job, random: Random) -> Job | None:
    """The pieces of the ranks are twice as far apart."""
    return _with_slices(
        job,
        random,
        lambda slices: tuple(
            replace(each, strides={axis: 2 * stride for axis, stride in each.strides.items()}) for each in slices
        ),
    )


def _with_slices(job: Job, random: Random, change: Callable[[tuple[Slice, ...]], tuple[Slice, ...]]) -> Job | None:
    commands = job.classes[0].program.commands
    found = [(i, each) for i, each in enumerate(commands) if isinstance(each, Work) and each.slices]
    if not found:
        return None
    index, command = random.choice(found)
    changed = replace(command, slices=change(command.slices))
    return on_all(job, lambda program: with_command(program, index, changed))


@_mutator
def reduce_otherwise(job: Job, random: Random) -> Job | None:
    """All members take the largest instead of the sum."""
    found = [i for i, each in enumerate(job.classes[0].program.commands) if getattr(each, "reduction", None) == "sum"]
    if not found:
        return None
    index = random.choice(found)
    return on_all(job, lambda each: with_command(each, index, replace(each.commands[index], reduction="max")))


@_mutator
def fill_another_slot(job: Job, random: Random) -> Job | None:
    """Two pieces of state of equal size are known by each other's name."""
    slots = [slot for slot in job.classes[0].program.slots if slot.role in STATE]
    found = [(one, other) for one, other in permutations(slots, 2) if _alike(one.range, other.range)]
    if not found:
        return None
    names = {one.name: other.name for pair in [random.choice(found)] for one, other in (pair, pair[::-1])}

    def change(program: Program) -> Program:
        return replace(program, slots=tuple(replace(s, name=names.get(s.name, s.name)) for s in program.slots))

    return on_all(job, change)


def _launches(program: Program) -> Iterator[tuple[int, Launch]]:
    return ((i, each) for i, each in enumerate(program.commands) if isinstance(each, Launch))


def _updates(program: Program) -> Iterator[tuple[int, Launch]]:
    """Launches that write a parameter in its slot."""
    slots = {slot.range for slot in program.slots if slot.role == "parameter"}
    return ((i, each) for i, each in _launches(program) if slots.intersection(each.writes))


def _is_slot(program: Program, where: Range) -> bool:
    return any(slot.range == where for slot in program.slots)


def _is_inside(inner: Range, outer: Range) -> bool:
    return inner.overlaps(outer) and outer.offset <= inner.offset and inner.end <= outer.end and inner != outer


def _alike(one: Range, other: Range) -> bool:
    """Whether one may stand for the other: as long, and elsewhere."""
    return one.length == other.length and one.space == other.space and one.offset != other.offset


def _fits(job: Job, one: str, other: str) -> bool:
    mine, theirs = job.kernels[one], job.kernels[other]
    return (mine.reads, mine.writes, mine.scratch) == (theirs.reads, theirs.writes, theirs.scratch)


def _with_operand(job: Job, random: Random, found: list[tuple[int, int, Range]]) -> Job | None:
    """One operand of a launch is read elsewhere, on all ranks."""
    if not found:
        return None
    index, i, where = random.choice(found)
    return _with_launch(job, index, lambda each: replace(each, reads=(*each.reads[:i], where, *each.reads[i + 1 :])))


def _with_launch(job: Job, index: int, change: Callable[[Launch], Launch]) -> Job:
    def changed(program: Program) -> Program:
        launch = program.commands[index]
        assert isinstance(launch, Launch)
        return with_command(program, index, change(launch))

    return on_all(job, changed)


def _writing(command: Command, i: int, where: Range) -> Command:
    if isinstance(command, Launch):
        return replace(command, writes=(*command.writes[:i], where, *command.writes[i + 1 :]))
    return replace(command, target=where)
