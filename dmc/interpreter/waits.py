"""What lanes wait for, and the report on a job in which they wait forever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dmc.errors import DmcError
from dmc.interpreter.movements import Movement, movement_of, told
from dmc.program import Await, Collective, Job, Program, Record

# A command: its rank, and its index among the rank's commands.
Place: TypeAlias = tuple[int, int]


class Deadlock(DmcError):
    """The lanes of a job wait for one another, or for something that never happens."""


@dataclass(frozen=True)
class Signalled:
    """The event of a rank was recorded."""

    rank: int
    event: int


@dataclass(frozen=True)
class Done:
    """A command has ended."""

    place: Place


@dataclass(frozen=True)
class Delivered:
    """A movement between ranks has ended."""

    movement: Movement


def story(
    job: Job,
    places: Mapping[tuple[int, int], int],
    parts: Mapping[Movement, Mapping[int, Collective]],
    held: Mapping[Place, Place],
) -> str:
    """Who waits for whom, one line per unfinished lane.

    places: by rank and lane, the current command. parts: for each movement, the ranks that have reached it.
    """
    lines: list[str] = []
    for (rank, lane), place in sorted(places.items()):
        program = job.programs[rank]
        who = f"rank {rank}, lane {program.lanes[lane].name}, command {place}"
        lines += [f"{who} waits for {what}" for what in _waits_for(job, program, place, parts, held)]
    return "the step does not end:\n" + "\n".join(f"  {line}" for line in lines)


def _waits_for(
    job: Job,
    program: Program,
    place: int,
    parts: Mapping[Movement, Mapping[int, Collective]],
    held: Mapping[Place, Place],
) -> Iterator[str]:
    command = program.commands[place]
    movement = movement_of(program.rank, command) if isinstance(command, Collective) else None
    reached = parts.get(movement, {}) if movement else {}
    if (program.rank, place) in held and program.rank not in reached:
        rank, other = held[program.rank, place]
        yield f"command {other} of rank {rank}, as requested"
    elif isinstance(command, Await):
        yield f"event {command.event}, which {_recorder(program, command.event)}"
    elif movement and isinstance(command, Collective):
        for rank in movement[2]:
            if rank not in reached:
                yield f"rank {rank} in {told(command)}, {_partner(job.programs[rank], movement)}"


def _recorder(program: Program, event: int) -> str:
    for place, command in enumerate(program.commands):
        if isinstance(command, Record) and command.event == event:
            return f"lane {program.lanes[command.lane].name} records at its command {place}"
    return "nobody records"


def _partner(program: Program, movement: Movement) -> str:
    for place, command in enumerate(program.commands):
        if isinstance(command, Collective) and movement_of(program.rank, command) == movement:
            return f"whose lane {program.lanes[command.lane].name} has yet to reach its command {place}"
    return "which never takes part"
