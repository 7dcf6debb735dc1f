"""Names of places and values in counterexamples."""

from __future__ import annotations

from dmc.program import Await, Collective, Command, Launch, Move, Program, Range, Record
from dmc.program.labels import short


def what(command: Command) -> str:
    """The command in a few words, with the place in the model that it comes from: `all_reduce #3 (h.1)`."""
    match command:
        case Launch():
            name = f"launch of @{command.kernel}"
        case Move():
            name = f"move {command.source.space} → {command.target.space}"
        case Collective():
            name = f"{command.kind} #{command.instance}"
        case Record():
            return f"record of event {command.event}"
        case Await():
            return f"await of event {command.event}"
    return f"{name} ({short(command.label)})" if command.label else name


def where(program: Program, index: int) -> str:
    """A command's position: `rank 0, lane compute, command 12, launch of @matmul_0 (h.1)`."""
    command = program.commands[index]
    return f"rank {program.rank}, lane {lane_name(program, command.lane)}, command {index}, {what(command)}"


def lane_name(program: Program, lane: int) -> str:
    """The lane's name, or its number where there is no such lane."""
    return program.lanes[lane].name if 0 <= lane < len(program.lanes) else f"number {lane}"


def told(given: Range) -> str:
    """Bytes of an arena: `device [256, 320)`."""
    return f"{given.space} [{given.offset}, {given.end})"
