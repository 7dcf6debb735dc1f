"""The program of one rank as readable lines: its launches, moves and collectives, with their events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc.program import Await, Command, Job, Launch, Program, Range, Record, Work
from dmc.program.describe import action_of, bytes_of, kind_of
from dmc.program.labels import short
from dmc.program.program import accesses


@dataclass(frozen=True)
class Wait:
    """An event that a command waits for, and the number of the command after which it is recorded, if any."""

    event: int
    after: int | None


@dataclass(frozen=True)
class Line:
    """A launch, move or collective; or an await or record without one next to it on its lane (see `kind`).

    number: of the command, as in messages of the proof. kind: of the kernel or movement. kernel: the symbol of the
    launched kernel. label: the module, tensor or slot that it comes from. bytes: moved through memory or over a link.
    signals: events recorded when it ends. action: of a pipeline, to which it belongs.
    """

    number: int
    lane: str
    kind: str
    kernel: str
    label: str
    bytes: int
    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()
    waits: tuple[Wait, ...] = ()
    signals: tuple[int, ...] = ()
    action: str = ""


def lines_of(job: Job, rank: int) -> tuple[Line, ...]:
    """The lines of a rank's program, in order of issue.

    An event is shown with the command that waits for it or that it follows: the first one after the await, and the last
    one before the record, on the same lane. Linear in the commands.
    """
    program = job.program(rank)
    beside = {number: _Beside() for number, _ in _works(program)}
    alone = dict(_attach(program, beside))
    recorded = _recorded_after(program)
    lines: list[Line] = []
    for number, command in enumerate(program.commands):
        if number in beside:
            waits = tuple(Wait(event, recorded.get(event)) for event in beside[number].waits)
            lines.append(_line(job, program, number, command, waits, tuple(beside[number].signals)))
        elif number in alone:
            lines.append(_line(job, program, number, command, (), ()))
    return tuple(lines)


@dataclass
class _Beside:
    """The events of one command."""

    waits: list[int]
    signals: list[int]

    def __init__(self) -> None:
        self.waits, self.signals = [], []


def _works(program: Program) -> Iterator[tuple[int, Work]]:
    for number, command in enumerate(program.commands):
        if not isinstance(command, Record | Await):
            yield number, command


def _attach(program: Program, beside: dict[int, _Beside]) -> Iterator[tuple[int, Command]]:
    """Attaches each event to its command; returns the awaits and records without one."""
    waiting: dict[int, list[tuple[int, Await]]] = {}
    last: dict[int, int] = {}
    for number, command in enumerate(program.commands):
        match command:
            case Await():
                waiting.setdefault(command.lane, []).append((number, command))
            # Awaits followed directly by a record form a command of their own.
            case Record() if command.lane in last and not waiting.get(command.lane):
                beside[last[command.lane]].signals.append(command.event)
            case Record():
                yield from waiting.pop(command.lane, [])
                yield number, command
            case _:
                beside[number].waits += [each.event for _, each in waiting.pop(command.lane, [])]
                last[command.lane] = number
    for rest in waiting.values():
        yield from rest


def _recorded_after(program: Program) -> dict[int, int]:
    """The command after which each event is recorded."""
    last: dict[int, int] = {}
    recorded: dict[int, int] = {}
    for number, command in enumerate(program.commands):
        if not isinstance(command, Record):
            last[command.lane] = number
        elif command.lane in last:
            recorded[command.event] = last[command.lane]
    return recorded


def _line(
    job: Job, program: Program, number: int, command: Command, waits: Sequence[Wait], signals: Sequence[int]
) -> Line:
    lane = program.lanes[command.lane].name
    if isinstance(command, Record | Await):
        kind = "record" if isinstance(command, Record) else "await"
        return Line(number, lane, kind, "", f"event {command.event}", 0)
    reads, writes = accesses(command)
    return Line(
        number,
        lane,
        kind_of(job, command),
        command.kernel if isinstance(command, Launch) else "",
        short(command.label),
        bytes_of(job, command),
        reads,
        writes,
        tuple(waits),
        tuple(signals),
        action_of(command),
    )
