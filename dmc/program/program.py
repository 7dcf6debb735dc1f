"""The static program of one rank: the work of its lanes on byte ranges of its arenas, in final order.

`commands` are in order of issue. The commands of one lane run sequentially in that order; commands of different lanes
run concurrently unless a `Record` and an `Await` of one event are between them. Nothing else synchronises. Issued one
at a time in this order, the commands give the right result; events limit their reordering.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

from dmc.program.limits import Axis, Count, ElementType, Shape

Space = Literal["device", "staged", "pinned_host", "host"]
# The device's memory; such for inputs, filled while the call before runs; host memory that it reaches; and such that
# keeps its content.
DEVICE: Space = "device"
STAGED: Space = "staged"
PINNED_HOST: Space = "pinned_host"
HOST: Space = "host"
# All calls share these, and find there what the one before has left. Of the others each call in flight has its own.
KEPT: tuple[Space, ...] = (DEVICE, HOST)
# What tensors are to the host: state; what it passes anew in each step; and what it reads.
StateRole = Literal["parameter", "frozen", "buffer", "optimizer", "counter", "seed"]
STATE_ROLES: tuple[str, ...] = get_args(StateRole)
HOST_ROLES = ("control", "batch")
OUTPUT_ROLE = "output"
Queue = Literal["compute", "comm", "copy_in", "copy_out"]
CollectiveKind = Literal[
    "all_gather", "all_reduce", "all_to_all", "broadcast", "permute", "recv", "reduce_scatter", "send"
]
Reduction = Literal["sum", "mean", "prod", "min", "max"]
# Those in which each member takes, by itself, what others hold, and bytes from which on copy engines make them: below,
# NCCL takes less time (7 to 19 µs; a meeting and copies take 12 to 19 between two ranks, 22 to 35 between four).
COPIED: tuple[CollectiveKind, ...] = ("all_gather", "all_to_all", "broadcast", "permute")
COPIED_BYTES = 512 << 10

# At most this many calls are in flight: while one runs, the next is prepared. More would only delay error reports.
IN_FLIGHT = 2

# Every value starts at a multiple of this many bytes.
ALIGNMENT = 256


def spaces_of(role: str) -> tuple[Space, ...]:
    """Where tensors of a role may lie; nowhere for a role that does not exist.

    State is kept. The host fills the inputs of a call, and may still read the outputs of the one before, while another
    runs.
    """
    if role in STATE_ROLES:
        return KEPT
    if role in HOST_ROLES:
        return PINNED_HOST, STAGED
    return (PINNED_HOST,) if role == OUTPUT_ROLE else ()


def aligned(size: int) -> int:
    """The size rounded up, so that the next value is aligned, too."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def device_bytes(arenas: Mapping[Space, int]) -> int:
    """The memory of the device that arenas of these sizes take, in bytes."""
    return arenas.get(DEVICE, 0) + IN_FLIGHT * arenas.get(STAGED, 0)


class Range(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Bytes [offset, offset + length) of the arena of one memory space."""

    space: Space
    offset: Count
    length: Count

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.length

    def overlaps(self, other: Range) -> bool:
        """Whether the two overlap."""
        return self.space == other.space and self.offset < other.end and other.offset < self.end


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """A read that differs between the ranks of a class: it begins `strides[axis]` bytes further on for each step along
    an axis of the mesh. read: its number among those of its command."""

    read: Count
    strides: dict[Axis, Count]


class Variants(msgspec.Struct, frozen=True, array_like=True):
    """The kernels of the ranks of a class: one for each index in the group along `axes`."""

    axes: tuple[Axis, ...]
    kernels: tuple[str, ...]


class Launch(msgspec.Struct, frozen=True, array_like=True, tag="launch"):
    """Runs a kernel: `reads` and `writes` are its operands and results in order, `scratch` memory that it may
    overwrite.

    A range of `writes` may equal one of `reads` if the kernel works in place. `label` is its readable origin in the
    model, `action` that of a pipeline to which it belongs, `2F0`. slices, variants: what differs on the other ranks of
    its class.
    """

    lane: Count
    kernel: str
    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    scratch: Range | None = None
    label: str = ""
    slices: tuple[Slice, ...] = ()
    variants: Variants | None = None
    action: str = ""


class Move(msgspec.Struct, frozen=True, array_like=True, tag="move"):
    """Copies bytes of one rank, between memory spaces or within one; the ranges have equal length and do not
    overlap."""

    lane: Count
    source: Range
    target: Range
    label: str = ""
    slices: tuple[Slice, ...] = ()


class Collective(msgspec.Struct, frozen=True, array_like=True, tag="collective"):
    """This rank's part in a movement between ranks.

    channel: the communicator. ranks: the members, in group order. instance: identifies the movement in the job; the
    same for all its members, and unique to it. count: the number of elements of `dtype` (MLIR's name) in `source`. With
    n members: all_reduce: `target` holds count. all_gather: n × count, member i's piece as piece i. reduce_scatter:
    piece i of n of the reduction at member i. all_to_all: piece j of the source goes to member j, where it is piece i.
    broadcast: the source of member `peer`. permute: by `pairs` (source, target), zeros at members that are not targets.
    send: to member `peer`, without a target; recv: from member `peer`, without a source, `count` elements. reduction,
    accumulate: how values are combined, and the accumulation type; None without a reduction. A member's `target` may
    equal its `source` for an all_reduce. action: of a pipeline's message, the action that computes what it carries.
    """

    lane: Count
    kind: CollectiveKind
    channel: str
    ranks: tuple[Count, ...]
    instance: Count
    dtype: ElementType
    count: Count
    source: Range | None
    target: Range | None
    reduction: Reduction | None = None
    accumulate: ElementType | None = None
    peer: Count | None = None
    pairs: tuple[tuple[Count, Count], ...] = ()
    label: str = ""
    slices: tuple[Slice, ...] = ()
    action: str = ""


class Record(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """Signals `event` when everything before it on its lane is done."""

    lane: Count
    event: Count


class Await(msgspec.Struct, frozen=True, array_like=True, tag="await"):
    """Later commands on its lane begin after `event` was signalled in this step."""

    lane: Count
    event: Count


Work: TypeAlias = Launch | Move | Collective
Command: TypeAlias = Work | Record | Await


class Lane(msgspec.Struct, frozen=True, array_like=True):
    """An in-order queue of one rank; `channel` is the communicator of a `comm` lane."""

    name: str
    queue: Queue
    channel: str | None = None


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """The place of a tensor for the host: state (in place), inputs before a step, outputs after it.

    role: one of `STATE_ROLES`, `HOST_ROLES`, or `OUTPUT_ROLE`; it determines where the range may be (`spaces_of`).
    dtype: MLIR's name. shape: of this rank's part.
    """

    name: str
    role: str
    dtype: ElementType
    shape: Shape
    range: Range


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """The content of a range for part of the step: from command `first` to command `last`, inclusive.

    category: one of `dmc.program.categories.CATEGORIES`.
    """

    label: str
    category: str
    range: Range
    first: Count
    last: Count


class Program(msgspec.Struct, frozen=True, array_like=True):
    """The program of one rank for a step. `arenas`: bytes by memory space. Events count from 0."""

    rank: Count
    arenas: dict[Space, Count]
    # The proof keeps a clock of all lanes for each command.
    lanes: Annotated[tuple[Lane, ...], msgspec.Meta(max_length=256)]
    slots: tuple[Slot, ...]
    commands: tuple[Command, ...]
    buffers: tuple[Buffer, ...] = ()


def accesses(command: Command) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """The ranges that a command reads and writes on its own rank."""
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
