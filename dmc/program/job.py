"""The programs of all ranks of a mesh with the kernels they launch, and their compact file format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Annotated

import msgspec

from dmc.errors import ArtifactError
from dmc.program.limits import MAX_RANKS, Axis, AxisSize, Count, ElementType, Shape
from dmc.program.packed import MAX_BYTES, packed, unpacked
from dmc.program.program import STATE_ROLES, Command, Launch, Program, Range, Space

SCHEMA = 3
_MAGIC = b"DMCJOB"
_NUMBER = re.compile(r"_\d+$")


class Operand(msgspec.Struct, frozen=True, array_like=True):
    """The type of one operand or result of a kernel: MLIR's name of the element type, and the shape."""

    dtype: ElementType
    shape: Shape


def types_of(reads: tuple[Operand, ...], writes: tuple[Operand, ...]) -> str:
    """The types of a kernel, as text."""
    given, made = (
        ", ".join("x".join([*map(str, each.shape), each.dtype]) for each in side) for side in (reads, writes)
    )
    return f"{given} -> {made}"


class Kernel(msgspec.Struct, frozen=True, array_like=True):
    """A computation as one unit of work, shared by all its launches.

    flops: floating-point operations of a launch. traffic: bytes that it reads from and writes to device memory.
    scratch: bytes it needs besides its operands. implementation: the source of its code ("iree").
    kind: what dominates its time: "matmul" (matrix units), "reduction", "elementwise" or "other".
    """

    name: str
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    flops: Count
    traffic: Count
    scratch: Count = 0
    implementation: str = "iree"
    kind: str = "other"

    @property
    def family(self) -> str:
        """The implementation, and the name without its number: "triton attention_backward"."""
        return f"{self.implementation} {_NUMBER.sub('', self.name)}"

    @property
    def key(self) -> str:
        """What its time depends on, in any job: `triton matmul 4x8xbf16, 8x8xbf16 -> 4x8xbf16`."""
        return f"{self.family} {types_of(self.reads, self.writes)}"


class Channel(msgspec.Struct, frozen=True, array_like=True):
    """A communicator for each group of ranks; every rank creates its own in declaration order.

    The groups consist of ranks that differ along `axes`, or, without axes, are listed in `groups`, each in group order.
    Listed groups may share ranks and omit ranks.
    """

    name: str
    axes: tuple[Axis, ...] = ()
    groups: tuple[tuple[Count, ...], ...] = ()


class Job(msgspec.Struct, frozen=True, array_like=True):
    """A planned step: one program per rank of the mesh (axis to size, major first), in rank order."""

    mesh: dict[Axis, AxisSize]
    channels: tuple[Channel, ...]
    kernels: dict[str, Kernel]
    programs: Annotated[tuple[Program, ...], msgspec.Meta(max_length=MAX_RANKS)]

    def groups(self, channel: Channel) -> tuple[tuple[int, ...], ...]:
        """The groups of ranks of a channel in declared order, the ranks of each in the order of the group."""
        if channel.groups:
            return channel.groups
        axes = tuple(self.mesh)
        found: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
        for rank, place in enumerate(product(*map(range, self.mesh.values()))):
            at = dict(zip(axes, place, strict=True))
            others = tuple(at[axis] for axis in axes if axis not in channel.axes)
            found.setdefault(others, {})[tuple(at[axis] for axis in channel.axes)] = rank
        return tuple(tuple(rank for _, rank in sorted(group.items())) for group in found.values())

    def only(self, *kinds: type[Command]) -> Job:
        """The job with the commands of these kinds alone; buffers, which count commands, are gone."""
        return self.where(lambda command: isinstance(command, kinds))

    def where(self, stays: Callable[[Command], bool]) -> Job:
        """The job with those commands alone that `stays` accepts; buffers, which count commands, are gone."""
        programs = (
            msgspec.structs.replace(program, commands=tuple(filter(stays, program.commands)), buffers=())
            for program in self.programs
        )
        return msgspec.structs.replace(self, programs=tuple(programs))

    def state_apart(self, other: Job) -> str | None:
        """The first tensor of the state, on any rank, whose place, type or shape is not that of `other`; None if both
        have the same state."""
        own, others = (dict(_state(job)) for job in (self, other))
        return next((name for name in {**own, **others} if own.get(name) != others.get(name)), None)

    def to_bytes(self) -> bytes:
        """The job as a compact file: schema and content, compressed. Equal jobs give equal bytes."""
        return _MAGIC + SCHEMA.to_bytes(2, "little") + packed(self)

    @staticmethod
    def from_bytes(data: bytes, where: str = "the plan", size: int = MAX_BYTES) -> Job:
        """The inverse of `to_bytes`; every field is checked against its type, and every name exists. size: of the job
        unpacked, at most. Raises ArtifactError.
        """
        head = len(_MAGIC) + 2
        if data[: len(_MAGIC)] != _MAGIC:
            raise ArtifactError(where, "contains no plan", hint="compile the step again")
        schema = int.from_bytes(data[len(_MAGIC) : head], "little")
        if schema != SCHEMA:
            raise ArtifactError(
                where, f"has schema {schema}, but this dmc reads {SCHEMA}", hint="compile the step again"
            )
        job = unpacked(data[head:], Job, where, "compile the step again", size)
        if fact := next(_dangling(job), ""):
            raise ArtifactError(where, fact, hint="compile the step again")
        return job

    def digest(self) -> str:
        """SHA-256 of the job's content, in hexadecimal."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()

    def peaks(self) -> dict[Space, int]:
        """Bytes of each memory space, the largest of any rank."""
        peaks: dict[Space, int] = {}
        for program in self.programs:
            peaks |= {space: max(size, peaks.get(space, 0)) for space, size in program.arenas.items()}
        return peaks


def _dangling(job: Job) -> Iterator[str]:
    """Commands that name what the job does not have, so that what shows a plan can look it up."""
    for program in job.programs:
        for index, command in enumerate(program.commands):
            if command.lane >= len(program.lanes):
                yield f"rank {program.rank}, command {index}: there is no lane {command.lane}"
            if isinstance(command, Launch) and command.kernel not in job.kernels:
                yield f"rank {program.rank}, command {index}: there is no kernel @{command.kernel}"


def _state(job: Job) -> Iterator[tuple[str, tuple[str, tuple[int, ...], Range]]]:
    for program in job.programs:
        for slot in program.slots:
            if slot.role in STATE_ROLES:
                yield f"{slot.name}@{program.rank}", (slot.dtype, slot.shape, slot.range)
