"""The movements of a job: the participants of each, and their commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dmc.program import Collective, Job, Program
from dmc.program.collectives import members_of

# What identifies the movement of a command: its number, its channel, and its members; for a message the two ends.
Key = tuple[int, str, tuple[int, ...]]


@dataclass
class Movement:
    """One movement: the index of its part in each rank's program, by rank, in rank order."""

    key: Key
    parts: dict[int, int] = field(default_factory=dict)

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks whose parts it needs."""
        return self.key[2]


def key_of(program: Program, command: Collective) -> Key:
    """The movement of a rank's command; the ends of a message are its sender and its receiver."""
    return command.instance, command.channel, members_of(program.rank, command)


def collectives(program: Program) -> Iterator[tuple[int, Collective]]:
    """A rank's parts in movements, with their indices in its program."""
    return ((i, command) for i, command in enumerate(program.commands) if isinstance(command, Collective))


def movements(job: Job) -> dict[Key, Movement]:
    """Every movement of a job in which each rank has at most one part. Linear in commands."""
    found: dict[Key, Movement] = {}
    for program in job.programs:
        for index, command in collectives(program):
            key = key_of(program, command)
            found.setdefault(key, Movement(key)).parts[program.rank] = index
    return found
