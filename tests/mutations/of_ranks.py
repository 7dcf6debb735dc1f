"""Mutations of movements between ranks, mostly on one rank."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

from dmc.program import Collective, Job, Launch, Program, Record
from tests.mutations.edits import places, replace, swapped, with_command, with_inserted, without
from tests.mutations.mutators import mutator
from tests.rank_programs import on_ranks

MESSAGES = ("send", "recv")


def _parts(program: Program, *kinds: str) -> list[int]:
    """A rank's parts in movements that have other members, of some kinds or all."""
    found = [(i, program.commands[i]) for i in places(program, Collective)]
    return [
        i
        for i, each in found
        if isinstance(each, Collective) and len(each.ranks) > 1 and (not kinds or each.kind in kinds)
    ]


def _on_one_rank(
    job: Job, random: Random, kinds: tuple[str, ...], change: Callable[[Collective], Collective]
) -> Job | None:
    """Changes one rank's part in one movement."""
    rank = random.randrange(job.size)
    if not (found := _parts(job.programs[rank], *kinds)):
        return None
    index = random.choice(found)
    command: Any = job.programs[rank].commands[index]
    return on_ranks(job, [rank], lambda program: with_command(program, index, change(command)))


@mutator("V4")
def swap_collectives(job: Job, random: Random) -> Job | None:
    """One rank issues two movements of a communicator the other way round."""
    rank = random.randrange(job.size)
    program = job.programs[rank]
    found = [i for i in _parts(program) if getattr(program.commands[i], "kind", "") not in MESSAGES]
    lanes = [program.commands[i].lane for i in found]
    pairs = [(i, j) for n, i in enumerate(found) for m, j in enumerate(found[:n]) if lanes[n] == lanes[m]]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    return on_ranks(job, [rank], lambda each: swapped(each, one, other))


@mutator("V4", "V5")
def swap_a_send_and_a_receive(job: Job, random: Random) -> Job | None:
    """One rank receives before it sends."""
    rank = random.randrange(job.size)
    program = job.programs[rank]
    found = _parts(program, *MESSAGES)
    pairs = [(i, j) for i, j in pairwise(found) if program.commands[i].lane == program.commands[j].lane]
    pairs = [(i, j) for i, j in pairs if _kind(program, i) != _kind(program, j)]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    return on_ranks(job, [rank], lambda each: swapped(each, one, other))


@mutator("V4")
def drop_a_part(job: Job, random: Random) -> Job | None:
    """One rank does not take part."""
    rank = random.randrange(job.size)
    if not (found := _parts(job.programs[rank])):
        return None
    index = random.choice(found)
    return on_ranks(job, [rank], lambda program: without(program, [index]))


@mutator("V4")
def take_part_twice(job: Job, random: Random) -> Job | None:
    """One rank issues a movement twice."""
    rank = random.randrange(job.size)
    if not (found := _parts(job.programs[rank])):
        return None
    index = random.choice(found)
    return on_ranks(job, [rank], lambda program: with_inserted(program, index, program.commands[index]))


@mutator("V4")
def change_an_instance(job: Job, random: Random) -> Job | None:
    """One rank means another movement."""
    return _on_one_rank(job, random, (), lambda command: replace(command, instance=command.instance + 1000))


@mutator("V3", "V4")
def change_a_reduction(job: Job, random: Random) -> Job | None:
    """One rank reduces otherwise."""
    return _on_one_rank(job, random, ("all_reduce", "reduce_scatter"), lambda each: replace(each, reduction="max"))


@mutator("V3", "V4")
def change_a_type(job: Job, random: Random) -> Job | None:
    """One rank has other elements, of the same size or not."""
    dtype = random.choice(("i32", "f64", "bf16"))
    return _on_one_rank(job, random, (), lambda command: replace(command, dtype=dtype))


@mutator("V3", "V4")
def change_a_count(job: Job, random: Random) -> Job | None:
    """One rank moves another number of elements than it has room for."""
    return _on_one_rank(job, random, (), lambda command: replace(command, count=command.count + 12))


@mutator("V3", "V4")
def resize_a_bucket(job: Job, random: Random) -> Job | None:
    """One rank reduces fewer elements, and has room for just these."""

    def change(command: Collective) -> Collective:
        assert command.source is not None and command.target is not None, "an all-reduce has both"
        source, target = (replace(each, length=each.length - 4) for each in (command.source, command.target))
        return replace(command, count=command.count - 1, source=source, target=target)

    return _on_one_rank(job, random, ("all_reduce",), change)


@mutator("V3", "V4")
def change_a_kind(job: Job, random: Random) -> Job | None:
    """One rank takes part in another kind of movement of the same sizes."""

    def change(command: Collective) -> Collective:
        return replace(command, kind="broadcast", peer=0, reduction=None, accumulate=None, pairs=())

    return _on_one_rank(job, random, ("all_reduce", "permute", "all_to_all"), change)


@mutator("V3", "V4")
def change_a_peer(job: Job, random: Random) -> Job | None:
    """One rank has another root, or another end of a message."""

    def change(command: Collective) -> Collective:
        return replace(command, peer=((command.peer or 0) + 1) % len(command.ranks))

    return _on_one_rank(job, random, ("broadcast", *MESSAGES), change)


@mutator("V3", "V4")
def change_pairs(job: Job, random: Random) -> Job | None:
    """One rank permutes otherwise."""
    return _on_one_rank(job, random, ("permute",), lambda command: replace(command, pairs=command.pairs[1:]))


@mutator("V3", "V4")
def change_the_order_of_members(job: Job, random: Random) -> Job | None:
    """One rank counts the members of its group from the other end."""
    return _on_one_rank(job, random, (), lambda command: replace(command, ranks=command.ranks[::-1]))


@mutator("V3")
def change_a_channel(job: Job, random: Random) -> Job | None:
    """A movement is on the lane of another communicator than its own."""
    others = [channel.name for channel in job.channels]
    return (
        _on_one_rank(job, random, (), lambda each: replace(each, channel=others[others.index(each.channel) - 1]))
        if len(others) > 1
        else None
    )


@mutator("V3", "V10")
def change_a_kernel(job: Job, random: Random) -> Job | None:
    """One rank launches a kernel of another type."""
    rank = random.randrange(job.size)
    index = random.choice(places(job.programs[rank], Launch))
    command: Any = job.programs[rank].commands[index]
    own = job.kernels[command.kernel]
    others = [name for name, each in job.kernels.items() if (each.reads, each.writes) != (own.reads, own.writes)]
    if not others:
        return None
    name = random.choice(others)
    return on_ranks(job, [rank], lambda program: with_command(program, index, replace(command, kernel=name)))


@mutator("V10")
def decide_alone(job: Job, random: Random) -> Job | None:
    """One rank of a class has an event that the others lack."""
    several = [rank for own in job.classes if len(own.ranks) > 1 for rank in own.ranks]
    if not several:
        return None
    rank = random.choice(several)
    events = [each.event for each in job.programs[rank].commands if isinstance(each, Record)]
    index = random.choice(places(job.programs[rank], Launch))
    extra = Record(random.randrange(len(job.programs[rank].lanes)), max(events, default=-1) + 1)
    return on_ranks(job, [rank], lambda program: with_inserted(program, index, extra))


def _kind(program: Program, index: int) -> str:
    return getattr(program.commands[index], "kind", "")
