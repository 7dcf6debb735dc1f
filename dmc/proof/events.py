"""V1: every event is recorded once, before its awaits."""

from __future__ import annotations

from dmc.errors import ProofError
from dmc.program import Await, Job, Program, Record
from dmc.proof.story import where


def check_events(job: Job) -> None:
    """Raises ProofError for an event that is recorded twice, or awaited without a record before it."""
    for program in (each.program for each in job.classes):
        _check(program)


def _check(program: Program) -> None:
    recorded: dict[int, int] = {}
    for index, command in enumerate(program.commands):
        if isinstance(command, Record):
            if command.event in recorded:
                first = recorded[command.event]
                fact = f"event {command.event} is recorded a second time; command {first} recorded it before"
                raise ProofError("V1", where(program, index), fact, "give each record its own event")
            recorded[command.event] = index
        if isinstance(command, Await) and command.event not in recorded:
            fact = f"waits for event {command.event} forever: {_why(program, command.event)}"
            raise ProofError("V1", where(program, index), fact, "record the event before it is awaited")


def _why(program: Program, event: int) -> str:
    for index, command in enumerate(program.commands):
        if isinstance(command, Record) and command.event == event:
            return f"it is recorded only later, by command {index}"
    return "nothing records it"
