"""The movements of a job: the participants of each, and the groups that stand for others."""

from __future__ import annotations

from collections.abc import Iterator

from dmc.program import Channel, Collective, Job, Program
from dmc.program.collectives import members_of

# What identifies the movement of a command: its number, its channel, and its members; for a message the two ends.
Key = tuple[int, str, tuple[int, ...]]


def key_of(program: Program, command: Collective) -> Key:
    """The movement of a rank's command; the ends of a message are its sender and its receiver."""
    return command.instance, command.channel, members_of(program.rank, command)


def collectives(program: Program) -> Iterator[tuple[int, Collective]]:
    """A rank's parts in movements, with their indices in its program."""
    return ((i, command) for i, command in enumerate(program.commands) if isinstance(command, Collective))


def representatives(job: Job, channel: Channel) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]]:
    """Groups of a channel that stand for all, and for each member its class and the number of the group among its own.

    Where these are equal for two groups, the members of both issue the same commands for them, in the same order, with
    peers in the same places of the group: what holds for the movements of one holds for those of the other.
    """
    class_of = {rank: number for number, own in enumerate(job.classes) for rank in own.ranks}
    seen: set[tuple[tuple[int, int], ...]] = set()
    for group in job.groups(channel):
        alike = tuple((class_of[rank], job.groups_of(channel.name, rank).index(group)) for rank in group)
        if alike not in seen:
            seen.add(alike)
            yield group, alike
