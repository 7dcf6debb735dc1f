"""The static program of one rank: what its lanes do on byte ranges of its arenas, in an order that is final.

`commands` stand in the order in which they are issued. The commands of one lane run in that order, one after another;
commands of different lanes run at the same time unless a `Record` and an `Await` of one event lie between them. Nothing
else synchronises. Issued one at a time in this order, the commands give the right result; the events say how far they
may run apart.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Space = Literal["device", "pinned_host", "host"]
Queue = Literal["compute", "comm", "copy_in", "copy_out"]
CollectiveKind = Literal[
    "all_gather", "all_reduce", "all_to_all", "broadcast", "permute", "recv", "reduce_scatter", "send"
]
Reduction = Literal["sum", "mean", "prod", "min", "max"]

# Every value starts at a multiple of so many bytes.
ALIGNMENT = 256


def aligned(size: int) -> int:
    """The bytes that are set aside for so many, so that what follows is aligned too; the offset behind so many."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Range(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Bytes [offset, offset + length) of the arena of one memory space."""

    space: Space
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.length

    def overlaps(self, other: Range) -> bool:
        """Whether the two have a byte in common."""
        return self.space == other.space and self.offset < other.end and other.offset < self.end


class Launch(msgspec.Struct, frozen=True, array_like=True, tag="launch"):
    """Runs a kernel: `reads` and `writes` are its operands and results in order, `scratch` what it may overwrite.

    A range of `writes` may equal one of `reads` where the kernel works in place. `label` says, to people, where in the
    model it comes from.
    """

    lane: int
    kernel: str
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    scratch: Range | None = None
    label: str = ""


class Move(msgspec.Struct, frozen=True, array_like=True, tag="move"):
    """Copies bytes of one rank, between memory spaces or within one; the ranges are of one length and apart."""

    lane: int
    source: Range
    target: Range
    label: str = ""


class Collective(msgspec.Struct, frozen=True, array_like=True, tag="collective"):
    """This rank's part in a movement between ranks.

    channel: the communicator. ranks: who takes part, in the order of the group. instance: which movement of the job it
    is; all members name the same, and no other movement does.
    count: elements of `dtype` (MLIR's name) that `source` holds. With n members:
    all_reduce: `target` holds count. all_gather: n × count, member i's piece as piece i. reduce_scatter: piece i of n
    of the reduction at member i. all_to_all: piece j of the source goes to member j, where it is piece i. broadcast:
    the source of member `peer`. permute: by `pairs` (source, target), zeros where a member is no target. send: to
    member `peer`, without a target; recv: from member `peer`, without a source, `count` elements.
    reduction, accumulate: how values are combined, and the type in which they add up; None where nothing is.
    A member's `target` may equal its `source` for an all_reduce.
    """

    lane: int
    kind: CollectiveKind
    channel: str
    ranks: tuple[int, ...]
    instance: int
    dtype: str
    count: int
    source: Range | None
    target: Range | None
    reduction: Reduction | None = None
    accumulate: str | None = None
    peer: int | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    label: str = ""


class Record(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """Signals `event` when everything before it on its lane is done."""

    lane: int
    event: int


class Await(msgspec.Struct, frozen=True, array_like=True, tag="await"):
    """Whatever follows on its lane begins after `event` was signalled in this step."""

    lane: int
    event: int


Work: TypeAlias = Launch | Move | Collective
Command: TypeAlias = Work | Record | Await


class Lane(msgspec.Struct, frozen=True, array_like=True):
    """An in-order queue of one rank; `channel` is the communicator of a `comm` lane."""

    name: str
    queue: Queue
    channel: str | None = None


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """Where the host finds a tensor of the step: state (in place), what it gives before a step, what it reads after.

    role: "parameter", "frozen", "buffer", "optimizer", "counter", "seed" (state), "control", "batch", or "output".
    dtype: MLIR's name. shape: of this rank's part.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    range: Range


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """What a range holds for part of the step: from command `first` to command `last`, both included.

    category: "parameter", "gradient", "optimizer", "state" (other state), "input", "output", "activation",
    "communication" or "scratch".
    """

    label: str
    category: str
    range: Range
    first: int
    last: int


class Program(msgspec.Struct, frozen=True, array_like=True):
    """All that one rank does in a step. `arenas`: bytes by memory space. Events count from 0."""

    rank: int
    arenas: dict[Space, int]
    lanes: tuple[Lane, ...]
    slots: tuple[Slot, ...]
    commands: tuple[Command, ...]
    buffers: tuple[Buffer, ...] = ()


def accesses(command: Command) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """What a command reads and what it writes on its own rank."""
    match command:
        case Launch():
            scratch = () if command.scratch is None else (command.scratch,)
            return command.reads, (*command.writes, *scratch)
        case Move():
            return (command.source,), (command.target,)
        case Collective():
            return _listed(command.source), _listed(command.target)
        case _:
            return (), ()


def _listed(given: Range | None) -> tuple[Range, ...]:
    return () if given is None else (given,)
