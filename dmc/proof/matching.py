"""V4: the members of each communicator issue the same movements in the same order, and agree on each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from dmc.errors import ProofError
from dmc.program import Channel, Collective, Job, Program
from dmc.program.collectives import MESSAGES
from dmc.proof.instances import Key, collectives, key_of, representatives
from dmc.proof.story import what, where

# What all parts of a movement must agree on; the ends of a message differ in kind and peer.
AGREED = ("dtype", "count", "reduction", "accumulate", "kind", "peer", "pairs")
AGREED_BY_ENDS = ("dtype", "count")

# A message's kind and peer; None for all other movements, which have one order.
_Sort = tuple[str, int] | None
# A rank's parts in the movements of one group, by index in its program.
_Parts = Sequence[tuple[int, Collective]]
# Movements are matched by order within one of these: the members, which for a message are sender and receiver.
_Line = tuple[tuple[int, ...], bool]


def check_matching(job: Job) -> None:
    """Raises ProofError unless every movement has exactly one matching part on each member, and orders agree.

    NCCL matches by order only: the k-th collectives of a communicator's members become one, whatever was meant; so do
    the k-th send from one rank to another and the k-th receive there. Linear in the commands of all classes, times the
    members of the largest group.
    """
    for own in job.classes:
        _check_once(own.program)
    for channel in job.channels:
        parts = _parts(job, channel)
        for group, alike in representatives(job, channel):
            _check_group(job, channel.name, group, [parts[each] for each in alike])


def _check_once(program: Program) -> None:
    seen: dict[Key, int] = {}
    for index, command in collectives(program):
        key = key_of(program, command)
        if key in seen:
            fact = f"is issued a second time in one step; command {seen[key]} issued it before"
            raise ProofError("V4", where(program, index), fact, "each member must issue an instance once")
        seen[key] = index


def _parts(job: Job, channel: Channel) -> Mapping[tuple[int, int], Mapping[_Sort, _Parts]]:
    """By class, and the number of the group among a rank's own."""
    found: defaultdict[tuple[int, int], dict[_Sort, list[tuple[int, Collective]]]] = defaultdict(dict)
    for number, own in enumerate(job.classes):
        groups = job.groups_of(channel.name, own.ranks[0])
        for index, command in collectives(own.program):
            if command.channel == channel.name:
                sort = (command.kind, command.peer or 0) if command.kind in MESSAGES else None
                found[number, groups.index(command.ranks)].setdefault(sort, []).append((index, command))
    return found


def _check_group(job: Job, channel: str, group: tuple[int, ...], parts: Sequence[Mapping[_Sort, _Parts]]) -> None:
    issued: defaultdict[_Line, dict[int, _Parts]] = defaultdict(dict)
    for rank, own in zip(group, parts, strict=True):
        for sort, each in own.items():
            line = (group, False) if sort is None else (_ends(rank, sort[0], group[sort[1]]), True)
            issued[line][rank] = each
    for (members, is_message), orders in issued.items():
        first = orders.get(members[0], ())
        for other in members[1:]:
            # Ranks of a class issue the same.
            if (second := orders.get(other, ())) is not first:
                agreed = AGREED_BY_ENDS if is_message else AGREED
                _compare(job, channel, {members[0]: first, other: second}, agreed)


def _ends(rank: int, kind: str, peer: int) -> tuple[int, int]:
    return (rank, peer) if kind == "send" else (peer, rank)


def _compare(job: Job, channel: str, issued: Mapping[int, _Parts], agreed: Sequence[str]) -> None:
    one, other = issued
    for count, parts in enumerate(zip_longest(*issued.values())):
        numbers = [None if part is None else part[1].instance for part in parts]
        if numbers[0] != numbers[1]:
            tales = ["nothing more" if part is None else f"{what(part[1])}, its command {part[0]}" for part in parts]
            fact = f"as movement {count} that both take part in, rank {one} issues {tales[0]}, "
            fact += f"but rank {other} {tales[1]}; movements are matched by this order"
            raise ProofError("V4", f"communicator {channel} of ranks {one} and {other}", fact)
        (_, first), (index, second) = parts
        for name in agreed:
            mine, theirs = getattr(second, name), getattr(first, name)
            if mine != theirs:
                place = where(job.program(other), index)
                raise ProofError("V4", place, f"has {name} {mine}, but on rank {one} it has {theirs}")
