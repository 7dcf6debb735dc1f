"""V10: all ranks run one program, and no rank decides anything alone."""

from __future__ import annotations

from dmc.errors import ProofError
from dmc.program import Collective, Command, Job, Launch, Move, Program, Range
from dmc.program.collectives import MESSAGES
from dmc.proof.slices import check_slices
from dmc.proof.story import lane_name, what, where


def check_invariance(job: Job) -> None:
    """Raises ProofError for the first unjustified difference between a rank's program and rank 0's.

    Legitimate differences are: which slice of a value a rank reads, which variant of a kernel it launches, who its
    peers are, and whether it is the sender or the receiver of a message. Linear in commands.
    """
    first = job.programs[0]
    for program in job.programs[1:]:
        for name in ("arenas", "lanes", "slots", "buffers"):
            if getattr(program, name) != getattr(first, name):
                fact = f"its {name} differ from rank 0's: {_difference(getattr(first, name), getattr(program, name))}"
                raise ProofError("V10", f"rank {program.rank}", fact)
        _check_commands(job, first, program)
    check_slices(job)


def _check_commands(job: Job, first: Program, program: Program) -> None:
    if len(program.commands) != len(first.commands):
        fact = f"has {len(program.commands)} commands, rank 0 has {len(first.commands)}"
        raise ProofError("V10", f"rank {program.rank}", fact)
    for index, (one, other) in enumerate(zip(first.commands, program.commands, strict=True)):
        if one != other and _skeleton(job, one) != _skeleton(job, other):
            fact = f"is where rank 0 has {what(one)} on lane {lane_name(first, one.lane)}; they differ"
            raise ProofError("V10", where(program, index), fact, "decide for all ranks at once")


def _skeleton(job: Job, command: Command) -> object:
    """The properties of a command that must be the same on all ranks."""
    match command:
        case Launch():
            kernel = job.kernels[command.kernel]
            reads = tuple(map(_size, command.reads))
            work = (kernel.reads, kernel.writes, kernel.scratch, kernel.kind)
            return command.lane, work, reads, command.writes, command.scratch
        case Move():
            return command.lane, _size(command.source), command.target
        case Collective():
            is_message = command.kind in MESSAGES
            kind = ("message",) if is_message else (command.kind, command.peer, command.pairs)
            ends = () if is_message else (_size(command.source), command.target)
            type_ = (command.dtype, command.count, command.reduction, command.accumulate)
            return command.lane, kind, ends, command.channel, len(command.ranks), type_
        case _:
            return command


def _size(given: Range | None) -> tuple[str, int] | None:
    return None if given is None else (given.space, given.length)


def _difference(one: object, other: object) -> str:
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return f"{one} and {other}"
    pairs = enumerate(zip(one, other, strict=False))
    found = next((f"number {i} is {a} there and {b} here" for i, (a, b) in pairs if a != b), "")
    return found or f"there are {len(one)} there and {len(other)} here"
