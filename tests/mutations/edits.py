"""Small changes of jobs, of which mutations are made. Whatever is taken out or put in, buffers keep their commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from dmc.program import Await, Buffer, Collective, Command, Job, Launch, Move, Program, Range, Record, accesses

replace = msgspec.structs.replace


def on_all(job: Job, change: Callable[[Program], Program]) -> Job:
    """The job with all programs changed."""
    return job.mapped(change)


def with_command(program: Program, index: int, command: Command) -> Program:
    """The program with another command in one place."""
    commands = list(program.commands)
    commands[index] = command
    return replace(program, commands=tuple(commands))


def without(program: Program, indices: Iterable[int]) -> Program:
    """The program without some commands; a buffer whose command is gone ends at the next one."""
    gone = set(indices)
    kept = [i for i in range(len(program.commands)) if i not in gone]
    new = {old: number for number, old in enumerate(kept)}
    following = len(kept)
    for old in reversed(range(len(program.commands))):
        following = new.setdefault(old, following)
    last = len(kept) - 1
    commands = tuple(program.commands[i] for i in kept)
    return replace(program, commands=commands, buffers=_moved(program.buffers, lambda i: min(new[i], last)))


def without_event(program: Program, event: int) -> Program:
    """The program in which nothing signals or awaits an event."""
    commands = program.commands
    return without(
        program, [i for i, each in enumerate(commands) if isinstance(each, Record | Await) and each.event == event]
    )


def with_inserted(program: Program, index: int, command: Command) -> Program:
    """The program with a command more, before the one at `index`."""
    commands = (*program.commands[:index], command, *program.commands[index:])
    return replace(program, commands=commands, buffers=_moved(program.buffers, lambda i: i + (i >= index)))


def moved_to(program: Program, index: int, to: int) -> Program:
    """The program with a command moved to another place, counted without it."""
    order = list(range(len(program.commands)))
    order.insert(to, order.pop(index))
    new = {old: number for number, old in enumerate(order)}
    commands = tuple(program.commands[i] for i in order)
    return replace(program, commands=commands, buffers=_moved(program.buffers, new.__getitem__))


def swapped(program: Program, one: int, other: int) -> Program:
    """The program with two commands in each other's place."""
    first, second = program.commands[one], program.commands[other]
    return with_command(with_command(program, one, second), other, first)


def shifted(where: Range, by: int) -> Range:
    """The range, so many bytes further on."""
    return replace(where, offset=where.offset + by)


def with_ranges(command: Command, change: Callable[[Range], Range]) -> Command:
    """The command with all its ranges changed."""
    match command:
        case Launch():
            scratch = None if command.scratch is None else change(command.scratch)
            reads, writes = (tuple(map(change, each)) for each in (command.reads, command.writes))
            return replace(command, reads=reads, writes=writes, scratch=scratch)
        case Move() | Collective():
            ends: dict[str, Any] = {"source": command.source, "target": command.target}
            return replace(command, **{name: None if end is None else change(end) for name, end in ends.items()})
        case _:
            return command


def places(program: Program, *kinds: type[Any]) -> list[int]:
    """Where commands of these kinds stand."""
    return [i for i, command in enumerate(program.commands) if isinstance(command, kinds)]


def begun(program: Program, index: int) -> list[Range]:
    """The results of a command that it writes as the first, so that without it their readers read undefined bytes.

    Where state waits in host memory, its old value is there before: that the new one replaces it only V11 knows.
    """
    command = program.commands[index]
    reads, _ = accesses(command)
    results = command.writes if isinstance(command, Launch) else (command.target,) if isinstance(command, Move) else ()
    earlier = [each for other in program.commands[:index] for each in accesses(other)[1]]
    earlier += [slot.range for slot in program.slots if slot.role != "output"]
    return [each for each in results if each not in reads and not any(each.overlaps(other) for other in earlier)]


def _moved(buffers: Sequence[Buffer], new: Callable[[int], int]) -> tuple[Buffer, ...]:
    ends = [sorted((new(buffer.first), new(buffer.last))) for buffer in buffers]
    return tuple(replace(each, first=first, last=last) for each, (first, last) in zip(buffers, ends, strict=True))
