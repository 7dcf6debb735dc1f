"""Static programs of ranks, as data: what form planned says, without MLIR. Compiler and runtime both use them."""

from dmc.program.job import Channel, Job, Kernel, Operand
from dmc.program.program import (
    ALIGNMENT,
    Await,
    Buffer,
    Collective,
    CollectiveKind,
    Command,
    Lane,
    Launch,
    Move,
    Program,
    Range,
    Record,
    Slot,
    Space,
    Work,
    accesses,
)

__all__ = [
    "ALIGNMENT",
    "Await",
    "Buffer",
    "Channel",
    "Collective",
    "CollectiveKind",
    "Command",
    "Job",
    "Kernel",
    "Lane",
    "Launch",
    "Move",
    "Operand",
    "Program",
    "Range",
    "Record",
    "Slot",
    "Space",
    "Work",
    "accesses",
]
