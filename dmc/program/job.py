"""The programs of all ranks of a mesh with the kernels they launch, and their compact file format."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Annotated

import msgspec

from dmc.errors import ArtifactError, DmcError
from dmc.mesh import Mesh
from dmc.program.classes import Class, Member
from dmc.program.kernel import Kernel
from dmc.program.limits import MAX_RANKS, Axis, AxisSize, Count
from dmc.program.packed import MAX_BYTES, packed, unpacked
from dmc.program.program import STATE_ROLES, Await, Collective, Command, Launch, Program, Record, Slot, Space, accesses

SCHEMA = 5
_MAGIC = b"DMCJOB"


class Channel(msgspec.Struct, frozen=True, array_like=True):
    """A communicator for each group of ranks; every rank creates its own in declaration order.

    The groups consist of ranks that differ along `axes`, or, without axes, are listed in `groups`, each in group order.
    Listed groups may share ranks and omit ranks.
    """

    name: str
    axes: tuple[Axis, ...] = ()
    groups: tuple[tuple[Count, ...], ...] = ()


class Job(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A planned step: the programs of the ranks of a mesh (axis to size, major first), by classes.

    stages: the axes along which ranks run programs of their own, as the stages of a pipeline do: each combination of
    coordinates along them is a class. Without stages all ranks are one class.
    """

    mesh: dict[Axis, AxisSize]
    channels: tuple[Channel, ...]
    kernels: dict[str, Kernel]
    classes: Annotated[tuple[Class, ...], msgspec.Meta(max_length=MAX_RANKS)]
    stages: tuple[Axis, ...] = ()

    @staticmethod
    def of(
        mesh: dict[str, int],
        channels: tuple[Channel, ...],
        kernels: dict[str, Kernel],
        programs: Iterable[Program],
        stages: tuple[str, ...] = (),
    ) -> Job:
        """The job in which each rank has the program given for it; ranks of a stage with equal programs are a class."""
        job = Job(mesh, channels, kernels, (), stages)
        classes: list[Class] = []
        for program in programs:
            at = next((i for i, each in enumerate(classes) if job._is_of(each, program)), None)
            if at is None:
                classes.append(Class((program.rank,), program))
            else:
                classes[at] = Class((*classes[at].ranks, program.rank), classes[at].program)
        return msgspec.structs.replace(job, classes=tuple(classes))

    @cached_property
    def layout(self) -> Mesh:
        """The ranks along their axes. Raises PlanError for a mesh that cannot exist."""
        return Mesh(links=None, **self.mesh)

    @cached_property
    def size(self) -> int:
        """The number of ranks that have a program."""
        return sum(len(each.ranks) for each in self.classes)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """The programs of all ranks, in rank order."""
        return tuple(self.program(rank) for rank in sorted(self._class_of))

    def program(self, rank: int) -> Program:
        """The program of a rank, derived from that of its class the first time."""
        if rank not in self._derived:
            own = self._class_of[rank]
            self._derived[rank] = self.member(own, rank).program(own.program)
        return self._derived[rank]

    @cached_property
    def _derived(self) -> dict[int, Program]:
        return {}

    def launches(self) -> Iterator[tuple[int, Launch]]:
        """The launches of all ranks, each with its rank: of a class once where its ranks do not differ."""
        for own in self.classes:
            members = [self.member(own, rank) for rank in own.ranks]
            for command in own.program.commands:
                if not isinstance(command, Launch):
                    continue
                for each in members if command.slices or command.variants is not None else members[:1]:
                    launch = each.command(command)
                    assert isinstance(launch, Launch), "a launch is one on each rank"
                    yield each.rank, launch

    def member(self, own: Class, rank: int) -> Member:
        """Derives what a rank of a class runs."""
        return Member(rank, own.ranks[0], self.layout, self.groups_of)

    @cached_property
    def _class_of(self) -> Mapping[int, Class]:
        return {rank: each for each in self.classes for rank in each.ranks}

    def _is_of(self, own: Class, program: Program) -> bool:
        """Whether a program is what its rank would run in a class."""
        try:
            places = [self.layout.coordinates(rank) for rank in (own.ranks[0], program.rank)]
            is_of_stage = all(places[0][axis] == places[1][axis] for axis in self.stages)
            return is_of_stage and self.member(own, program.rank).program(own.program) == program
        except (DmcError, LookupError, ValueError):
            # The rank is not on the mesh, or its members are not those of a channel.
            return False

    def groups(self, channel: Channel) -> tuple[tuple[int, ...], ...]:
        """The groups of ranks of a channel in declared order, the ranks of each in the order of the group."""
        return channel.groups or self.layout.groups(channel.axes)

    def groups_of(self, channel: str, rank: int) -> tuple[tuple[int, ...], ...]:
        """The groups of a channel that a rank is in, in declared order. Raises KeyError without such a channel."""
        if channel not in self._known_groups:
            found = self._known_groups.setdefault(channel, {})
            for group in self.groups({each.name: each for each in self.channels}[channel]):
                for member in group:
                    found[member] = (*found.get(member, ()), group)
        return self._known_groups[channel].get(rank, ())

    @cached_property
    def _known_groups(self) -> dict[str, dict[int, tuple[tuple[int, ...], ...]]]:
        return {}

    def mapped(self, change: Callable[[Program], Program]) -> Job:
        """The job in which the program of each class is changed."""
        classes = tuple(Class(each.ranks, change(each.program)) for each in self.classes)
        return msgspec.structs.replace(self, classes=classes)

    def only(self, *kinds: type[Command]) -> Job:
        """The job with the commands of these kinds alone; buffers, which count commands, are gone."""
        return self.where(lambda command: isinstance(command, kinds))

    def where(self, stays: Callable[[Command], bool]) -> Job:
        """The job with those commands alone that `stays` accepts; buffers, which count commands, are gone."""
        return self.mapped(
            lambda each: msgspec.structs.replace(each, commands=tuple(filter(stays, each.commands)), buffers=())
        )

    def state_apart(self, other: Job) -> str | None:
        """The first tensor of the state, on any rank, whose place, type or shape is not that of `other`; None if both
        have the same state."""
        seen: set[tuple[int, int]] = set()
        for rank in sorted({*self._class_of, *other._class_of}):
            pair = [job._class_of.get(rank) for job in (self, other)]
            if (ids := (id(pair[0]), id(pair[1]))) in seen:
                continue
            seen.add(ids)
            own, others = ({} if each is None else _state(each.program) for each in pair)
            for name in {**own, **others}:
                if own.get(name) != others.get(name):
                    return f"{name}@{rank}"
        return None

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
        if fact := next(chain(_dangling(job), job.faults()), ""):
            raise ArtifactError(where, fact, hint="compile the step again")
        return job

    def digest(self) -> str:
        """SHA-256 of the job's content, in hexadecimal."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()

    def peaks(self) -> dict[Space, int]:
        """Bytes of each memory space, the largest of any rank."""
        peaks: dict[Space, int] = {}
        for each in self.classes:
            peaks |= {space: max(size, peaks.get(space, 0)) for space, size in each.program.arenas.items()}
        return peaks

    def faults(self) -> Iterator[str]:
        """What keeps the programs of ranks from being derived: first of classes, then of their commands."""
        yield from self.misplaced()
        for own in self.classes:
            for index, command in enumerate(own.program.commands):
                if fact := next(_faults_of(self, own, command), ""):
                    yield f"rank {own.program.rank}, command {index}: {fact}"
            moved = (each for each in own.program.commands if isinstance(each, Collective))
            for channel, ranks in dict.fromkeys((each.channel, each.ranks) for each in moved):
                yield from _faults_of_members(self, own, channel, ranks)

    def misplaced(self) -> Iterator[str]:
        """Ranks that are not in one class, and classes whose program is not that of their first rank."""
        try:
            size = self.layout.size
        except (DmcError, TypeError) as error:
            yield f"the mesh {self.mesh} cannot exist: {error}"
            return
        ranks = Counter(rank for each in self.classes for rank in each.ranks)
        yield from (f"rank {rank} is in {count} classes" for rank, count in ranks.items() if count > 1)
        if size != len(ranks) or max(ranks) >= size:
            yield f"the mesh has {size} ranks, but {len(ranks)} up to {max(ranks, default=0)} have programs"
            return
        for own in self.classes:
            if own.ranks != tuple(sorted(own.ranks)) or own.program.rank != own.ranks[0]:
                yield f"the class of ranks {list(own.ranks)} has the program of rank {own.program.rank}"


def _dangling(job: Job) -> Iterator[str]:
    """Commands that name what the job does not have, so that what shows a plan can look it up."""
    for own in job.classes:
        for index, command in enumerate(own.program.commands):
            place = f"rank {own.program.rank}, command {index}"
            if command.lane >= len(own.program.lanes):
                yield f"{place}: there is no lane {command.lane}"
            if isinstance(command, Launch):
                names = (command.kernel, *(command.variants.kernels if command.variants else ()))
                yield from (f"{place}: there is no kernel @{name}" for name in names if name not in job.kernels)


def _faults_of(job: Job, own: Class, command: Command) -> Iterator[str]:
    if isinstance(command, Record | Await):
        return
    reads = accesses(command)[0]
    if len({each.read for each in command.slices}) < len(command.slices):
        yield "it has two slices of one read"
    for each in command.slices:
        if not 0 <= each.read < len(reads) or not {*each.strides} <= {*job.mesh}:
            yield f"it has a slice of read {each.read} along {', '.join(each.strides)}, which does not exist"
    if isinstance(command, Launch):
        yield from _faults_of_kernels(job, own, command)


def _faults_of_kernels(job: Job, own: Class, launch: Launch) -> Iterator[str]:
    if (variants := launch.variants) is None:
        return
    names = variants.kernels
    if not {*variants.axes} <= {*job.mesh} or len(names) != job.layout.group_size(variants.axes):
        yield f"its {len(names)} kernels are not one for each index along {', '.join(variants.axes)}"
    elif launch.kernel != names[job.layout.index_in_group(own.ranks[0], variants.axes)]:
        yield f"@{launch.kernel} is not the kernel of rank {own.ranks[0]} among its variants"


def _faults_of_members(job: Job, own: Class, channel: str, members: tuple[int, ...]) -> Iterator[str]:
    if len(own.ranks) == 1:
        return
    axes = next((each.axes for each in job.channels if each.name == channel), None)
    if axes is None or not {*axes} <= {*job.mesh} or len({*axes}) < len(axes):
        yield f"there is no channel {channel} of this mesh"
        return
    groups = [job.groups_of(channel, rank) for rank in own.ranks]
    if members not in groups[0]:
        yield f"{list(members)} are no group of channel {channel} that rank {own.ranks[0]} is in"
    elif wrong := [
        rank for rank, each in zip(own.ranks, groups, strict=True) if [*map(len, each)] != [*map(len, groups[0])]
    ]:
        yield f"rank {wrong[0]} is in other groups of channel {channel} than its class"


def _state(program: Program) -> dict[str, Slot]:
    return {slot.name: msgspec.structs.replace(slot, role="") for slot in program.slots if slot.role in STATE_ROLES}
