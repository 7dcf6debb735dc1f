"""V4: the members of each communicator issue the same movements in the same order, and agree on each."""

from __future__ import annotations

from collections import defaultdict
from itertools import zip_longest

from dmc.errors import ProofError
from dmc.program import Collective, Job
from dmc.program.collectives import MESSAGES
from dmc.proof.instances import Key, Movement, collectives, key_of, movements
from dmc.proof.story import what, where

# What all parts of a movement must agree on; the ends of a message differ in kind and peer.
AGREED = ("channel", "ranks", "dtype", "count", "reduction", "accumulate", "kind", "peer", "pairs")
AGREED_BY_ENDS = ("channel", "ranks", "dtype", "count")

# Movements are matched by order within one of these: a communicator, and for messages also sender and receiver.
_Line = tuple[str, tuple[int, ...], bool]


def check_matching(job: Job) -> None:
    """Raises ProofError unless every movement has exactly one matching part on each member, and orders agree.

    NCCL matches by order only: the k-th collectives of a communicator's members become one, whatever was meant; so do
    the k-th send from one rank to another and the k-th receive there. Linear in commands.
    """
    _check_once(job)
    _check_orders(job)
    for movement in movements(job).values():
        _check_parts(job, movement)


def _check_once(job: Job) -> None:
    for program in job.programs:
        seen: dict[Key, int] = {}
        for index, command in collectives(program):
            key = key_of(program, command)
            if key in seen:
                fact = f"is issued a second time in one step; command {seen[key]} issued it before"
                raise ProofError("V4", where(program, index), fact, "each member must issue an instance once")
            seen[key] = index


def _check_orders(job: Job) -> None:
    issued: defaultdict[_Line, dict[int, list[int]]] = defaultdict(dict)
    for program in job.programs:
        for index, command in collectives(program):
            _, channel, members = key_of(program, command)
            line = (channel, members, command.kind in MESSAGES)
            issued[line].setdefault(program.rank, []).append(index)
    for (channel, members, _), orders in issued.items():
        for other in members[1:]:
            _compare(job, channel, (members[0], other), orders)


def _compare(job: Job, channel: str, pair: tuple[int, int], orders: dict[int, list[int]]) -> None:
    one, other = (job.programs[rank] for rank in pair)
    for count, places in enumerate(zip_longest(*(orders.get(rank, []) for rank in pair))):
        tales: list[str] = []
        keys: list[Key | None] = []
        for program, place in zip((one, other), places, strict=True):
            command = None if place is None else program.commands[place]
            keys.append(key_of(program, command) if isinstance(command, Collective) else None)
            tales.append("nothing more" if command is None else f"{what(command)}, its command {place}")
        if keys[0] != keys[1]:
            fact = f"as movement {count} that both take part in, rank {one.rank} issues {tales[0]}, "
            fact += f"but rank {other.rank} {tales[1]}; movements are matched by this order"
            raise ProofError("V4", f"communicator {channel} of ranks {pair[0]} and {pair[1]}", fact)


def _check_parts(job: Job, movement: Movement) -> None:
    parts = {rank: job.programs[rank].commands[index] for rank, index in movement.parts.items()}
    first_rank, *others = parts
    first = parts[first_rank]
    if {command.kind for command in parts.values() if isinstance(command, Collective)} == {*MESSAGES}:
        agreed = AGREED_BY_ENDS
    else:
        agreed = AGREED
    for rank in others:
        for name in agreed:
            mine, theirs = getattr(parts[rank], name), getattr(first, name)
            if mine != theirs:
                place = where(job.programs[rank], movement.parts[rank])
                raise ProofError("V4", place, f"has {name} {mine}, but on rank {first_rank} it has {theirs}")
