"""Mutations of events, lanes and the order of issue, on all ranks alike."""

from __future__ import annotations

from random import Random

from dmc.program import Await, Collective, Job, Launch, Move, Program, Record, accesses
from tests.mutations.edits import begun, moved_to, on_all, places, replace, with_command, with_inserted, without
from tests.mutations.mutators import UNORDERED, mutator


@mutator(UNORDERED)
def drop_an_await(job: Job, random: Random) -> Job | None:
    """A lane no longer waits."""
    found = places(job.classes[0].program, Await)
    if not found:
        return None
    index = random.choice(found)
    return on_all(job, lambda program: without(program, [index]))


@mutator("V1")
def drop_a_record(job: Job, random: Random) -> Job | None:
    """A command waits for an event that is never signalled."""
    found = places(job.classes[0].program, Record)
    if not found:
        return None
    index = random.choice(found)
    return on_all(job, lambda program: without(program, [index]))


@mutator(UNORDERED)
def drop_an_event(job: Job, random: Random) -> Job | None:
    """A record and its awaits are gone."""
    first = job.classes[0].program
    found = [each for each in first.commands if isinstance(each, Record)]
    if not found:
        return None
    event = random.choice(found).event
    gone = [i for i in places(first, Record, Await) if getattr(first.commands[i], "event", None) == event]
    return on_all(job, lambda program: without(program, gone))


@mutator(UNORDERED)
def free_the_communicators(job: Job, random: Random) -> Job | None:
    """Movements wait for nothing but the movement before them on their own communicator."""
    first = job.classes[0].program
    comm = [i for i, lane in enumerate(first.lanes) if lane.queue == "comm"]
    gone = [i for i in places(first, Await) if first.commands[i].lane in comm]
    # Some of them, so that it is not always the same job.
    gone = [i for i in gone if random.random() < 0.9]
    return on_all(job, lambda program: without(program, gone)) if gone else None


@mutator(UNORDERED)
def await_too_late(job: Job, random: Random) -> Job | None:
    """A lane waits behind the command that needed it."""
    first = job.classes[0].program
    pairs = [(i, _next_on_lane(first, i)) for i in places(first, Await)]
    found = [(i, to) for i, to in pairs if to is not None]
    if not found:
        return None
    index, to = random.choice(found)
    return on_all(job, lambda program: moved_to(program, index, to))


@mutator(UNORDERED)
def record_too_early(job: Job, random: Random) -> Job | None:
    """An event is signalled before the command that it is of."""
    first = job.classes[0].program
    lanes = [each.lane for each in first.commands]
    found = [(i, max((j for j in range(i) if lanes[j] == lanes[i]), default=-1)) for i in places(first, Record)]
    if not (found := [(i, to) for i, to in found if to >= 0]):
        return None
    index, to = random.choice(found)
    return on_all(job, lambda program: moved_to(program, index, to))


@mutator("V1")
def record_twice(job: Job, random: Random) -> Job | None:
    """One event has two records."""
    first = job.classes[0].program
    if not (found := places(first, Record)):
        return None
    index = random.choice(found)
    return on_all(job, lambda program: with_inserted(program, index, program.commands[index]))


@mutator("V1")
def await_before_record(job: Job, random: Random) -> Job | None:
    """A lane waits for an event of the future."""
    first = job.classes[0].program
    if not (found := places(first, Record)):
        return None
    index = random.choice(found)
    event = getattr(first.commands[index], "event", -1)
    lane = random.randrange(len(first.lanes))
    return on_all(job, lambda program: with_inserted(program, index, Await(lane, event)))


@mutator("V3")
def change_a_lane(job: Job, random: Random) -> Job | None:
    """A command runs on a lane that is not for it."""
    first = job.classes[0].program
    index = random.choice(places(first, Launch, Move, Collective))
    command = first.commands[index]
    # A copy may do well on other lanes, but not on one for movements between ranks.
    wrong = [n for n, lane in enumerate(first.lanes) if lane.queue == "comm" or not isinstance(command, Move)]
    lane = random.choice([n for n in wrong if n != command.lane])
    return on_all(job, lambda program: with_command(program, index, replace(program.commands[index], lane=lane)))


@mutator(UNORDERED, "V1")
def consume_before_producing(job: Job, random: Random) -> Job | None:
    """A command that reads what another has written is issued before that."""
    first = job.classes[0].program
    pairs = [
        (index, earlier)
        for earlier in places(first, Launch, Move)
        for written in begun(first, earlier)
        for index in range(earlier + 1, len(first.commands))
        if any(read.overlaps(written) for read in accesses(first.commands[index])[0])
    ]
    if not pairs:
        return None
    index, to = random.choice(pairs)
    return on_all(job, lambda program: moved_to(program, index, to))


@mutator("V7", "V4")
def drop_a_producer(job: Job, random: Random) -> Job | None:
    """A command is gone whose results are still read."""
    first = job.classes[0].program
    found = [i for i in places(first, Launch, Move) if begun(first, i)]
    index = random.choice(found)
    return on_all(job, lambda program: without(program, [index]))


def _next_on_lane(program: Program, index: int) -> int | None:
    """The next command on a command's lane that is not an event."""
    lane = program.commands[index].lane
    work = places(program, Launch, Move, Collective)
    return next((i for i in work if i > index and program.commands[i].lane == lane), None)
