"""What of a program waits in host memory."""

from __future__ import annotations

from collections.abc import Iterator

from dmc.program.program import DEVICE, HOST, Move, Program


def offloaded(program: Program) -> Iterator[Move]:
    """The moves to host memory of what is moved back: all but those to where the host finds outputs."""
    outputs = {slot.range for slot in program.slots}
    for command in program.commands:
        if isinstance(command, Move) and _leaves(command) and command.target not in outputs:
            yield command


def _leaves(move: Move) -> bool:
    return move.source.space == DEVICE != move.target.space


def offloaded_bytes(program: Program) -> int:
    """The bytes that a step moves to host memory, and back."""
    return sum(move.source.length for move in offloaded(program))


def fetched_bytes(program: Program) -> int:
    """The bytes of state that waits in host memory between steps, and that a step moves to the device, and back."""
    state = {slot.range for slot in program.slots if slot.range.space == HOST}
    moves = (command for command in program.commands if isinstance(command, Move))
    return sum(move.source.length for move in moves if move.source in state)
