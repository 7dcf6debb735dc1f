"""Mutations of places in memory."""

from __future__ import annotations

from random import Random

from dmc.program import Buffer, Job, Launch, Program, Range, accesses
from tests.mutations.edits import on_all, replace, shifted, with_command, with_ranges
from tests.mutations.mutators import UNORDERED, mutator
from tests.rank_programs import on_ranks


@mutator("V3", "V7", "V10", UNORDERED)
def shift_an_offset(job: Job, random: Random) -> Job | None:
    """One rank reads or writes a little beside."""
    rank = random.randrange(job.size)
    program = job.programs[rank]
    index = random.choice([i for i, each in enumerate(program.commands) if any(accesses(each))])
    touched = random.choice([*accesses(program.commands[index])[0], *accesses(program.commands[index])[1]])
    # By less than its length: whole other slices may be meant.
    by = random.choice((-1, 1)) * min(random.choice((4, 8, 16, 64, 128)), touched.length // 2)
    if by == 0 or not _is_seen(job, program, touched):
        return None

    def change(each: Range) -> Range:
        return shifted(each, by) if each == touched else each

    return on_ranks(job, [rank], lambda one: with_command(one, index, with_ranges(one.commands[index], change)))


@mutator("V3", "V7", "V10", UNORDERED)
def write_elsewhere(job: Job, random: Random) -> Job | None:
    """All ranks write a result beside its place."""
    launches = [(i, each) for i, each in enumerate(job.classes[0].program.commands) if isinstance(each, Launch)]
    index, launch = random.choice(launches)
    # What is computed in place leaves an old value behind, which is as good to the proof.
    if not (results := [each for each in launch.writes if each not in launch.reads]):
        return None
    target = random.choice(results)
    by = random.choice((-256, 256, 512))

    def change(program: Program) -> Program:
        writes = tuple(shifted(each, by) if each == target else each for each in launch.writes)
        return with_command(program, index, replace(program.commands[index], writes=writes))

    return on_all(job, change)


@mutator("V3")
def resize_an_operand(job: Job, random: Random) -> Job | None:
    """A launch reads fewer bytes than its kernel."""
    launches = [
        (i, each) for i, each in enumerate(job.classes[0].program.commands) if isinstance(each, Launch) and each.reads
    ]
    index, launch = random.choice(launches)
    if launch.reads[0].length <= 4:
        return None

    def change(program: Program) -> Program:
        own = program.commands[index]
        assert isinstance(own, Launch)
        first, *others = own.reads
        reads = (replace(first, length=first.length - 4), *others)
        return with_command(program, index, replace(own, reads=reads))

    return on_all(job, change)


@mutator("V3", "V8")
def shrink_an_arena(job: Job, random: Random) -> Job | None:
    """An arena is too small for what lies in it."""
    space = random.choice(sorted(job.classes[0].program.arenas))
    ranks = range(job.size) if random.random() < 0.5 else [random.randrange(job.size)]
    less = 256 * random.randint(1, max(job.classes[0].program.arenas[space] // 512, 1))

    def change(program: Program) -> Program:
        return replace(program, arenas={**program.arenas, space: program.arenas[space] - less})

    return on_ranks(job, ranks, change)


@mutator("V8")
def waste_an_arena(job: Job, random: Random) -> Job | None:
    """An arena is larger than what lies in it."""
    space = random.choice(sorted(job.classes[0].program.arenas))
    return on_all(job, lambda program: replace(program, arenas={**program.arenas, space: program.arenas[space] + 512}))


@mutator("V3", UNORDERED)
def alias_two_live_values(job: Job, random: Random) -> Job | None:
    """A value is put where another still lies."""
    first = job.classes[0].program
    taken = {slot.range for slot in first.slots}
    movable = [each for each in first.buffers if each.range not in taken and not _has_neighbours(first, each)]
    pairs = [
        (one, other)
        for one in movable
        for other in first.buffers
        if _live_together(one, other) and other.range.length >= one.range.length
    ]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    by = other.range.offset - one.range.offset
    return on_all(job, lambda program: _relocated(program, one, by))


@mutator("V7")
def shorten_a_life(job: Job, random: Random) -> Job | None:
    """A value is said to end before its last reader, or to begin after its writer."""
    first = job.classes[0].program
    long = [i for i, each in enumerate(first.buffers) if each.first < each.last]
    if not long:
        return None
    number = random.choice(long)
    own = first.buffers[number]
    end, at = ("first", own.last) if random.random() < 0.5 else ("last", own.first)

    def change(program: Program) -> Program:
        buffers = list(program.buffers)
        buffers[number] = replace(buffers[number], **{end: at})
        return replace(program, buffers=tuple(buffers))

    return on_all(job, change)


@mutator("V7", "V8")
def forget_a_buffer(job: Job, random: Random) -> Job | None:
    """Nothing says what some bytes hold."""
    number = random.randrange(len(job.classes[0].program.buffers))
    return on_all(job, lambda each: replace(each, buffers=(*each.buffers[:number], *each.buffers[number + 1 :])))


@mutator("V3")
def overlap_slots(job: Job, random: Random) -> Job | None:
    """Two slots of state share bytes."""
    first = job.classes[0].program
    state = [i for i, slot in enumerate(first.slots) if slot.role == "parameter"]
    if len(state) < 2:
        return None
    one, other = random.sample(state, 2)

    def change(program: Program) -> Program:
        slots = list(program.slots)
        slots[one] = replace(slots[one], range=replace(slots[one].range, offset=slots[other].range.offset))
        return replace(program, slots=tuple(slots))

    return on_all(job, change)


def _is_seen(job: Job, program: Program, touched: Range) -> bool:
    """Whether other ranks have the same bytes there, so that one that differs is seen."""
    return job.size > 1 or any(buffer.range == touched for buffer in program.buffers)


def _has_neighbours(program: Program, buffer: Buffer) -> bool:
    """Whether a value is handed over to, or taken over from, another in the same bytes."""
    ends = {buffer.first, buffer.last}
    others = [each for each in program.buffers if each is not buffer and each.range.overlaps(buffer.range)]
    return any(ends & {each.first, each.last} for each in others)


def _live_together(one: Buffer, other: Buffer) -> bool:
    apart = one.last < other.first or other.last < one.first
    return one is not other and one.range.space == other.range.space and not apart


def _relocated(program: Program, buffer: Buffer, by: int) -> Program:
    """The program with all accesses to a buffer, and the buffer, so many bytes further on."""

    def change(each: Range) -> Range:
        return shifted(each, by) if each.overlaps(buffer.range) else each

    changed = program
    for index in range(buffer.first, buffer.last + 1):
        changed = with_command(changed, index, with_ranges(changed.commands[index], change))
    buffers = tuple(
        replace(each, range=shifted(each.range, by)) if each == buffer else each for each in program.buffers
    )
    return replace(changed, buffers=buffers)
