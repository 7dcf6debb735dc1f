"""Which ranks are simulated, and which others they represent.

A job planned for n ranks along an axis can be simulated for more: the groups along that axis grow, and of all replicas,
which do the same at the same time, one is simulated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.machine import Machine
from dmc.program import Collective, Command, Job, Launch, Move, Program
from dmc.program.collectives import PAIRWISE


@dataclass(frozen=True)
class Group:
    """The members of a collective. played: the simulated ones. members: all of them. copies: groups that do the
    same."""

    played: tuple[int, ...]
    members: tuple[int, ...]
    copies: int = 1


@dataclass(frozen=True)
class Population:
    """ranks: their number. programs: of the simulated ones, by rank. copies: the number of ranks each represents."""

    ranks: int
    copies: int
    programs: dict[int, Program]

    def group(self, members: tuple[int, ...]) -> Group:
        """The group that the job's ranks `members` represent."""
        return Group(members, members)


@dataclass(frozen=True)
class Grown(Population):
    """One replica of `size` along the axis `axis` of a mesh with the sizes `mesh`."""

    machine: Machine
    mesh: tuple[int, ...]
    axis: int
    size: int
    _groups: dict[tuple[int, ...], Group] = field(default_factory=dict)

    def group(self, members: tuple[int, ...]) -> Group:
        """The group that the job's ranks `members` represent, with all replicas if it is along the axis."""
        if members not in self._groups:
            self._groups[members] = self._group(members)
        return self._groups[members]

    def _group(self, members: tuple[int, ...]) -> Group:
        played = tuple(dict.fromkeys(self.grown(rank, 0) for rank in members))
        replicas = ([self.grown(rank, index) for rank in members] for index in range(self.size))
        if len(played) < len(members):
            return Group(played, tuple(dict.fromkeys(rank for group in replicas for rank in group)))
        # If replicas are spread over nodes differently, the one on the most nodes counts.
        most = max(replicas, key=lambda group: len({self.machine.node(rank) for rank in group}))
        return Group(played, tuple(most), self.size)

    def grown(self, rank: int, index: int) -> int:
        """The number, in the grown mesh, of a rank of the job moved to replica `index`."""
        major, minor = divmod(rank, self._stride)
        return (major // self.mesh[self.axis] * self.size + index) * self._stride + minor

    @cached_property
    def _stride(self) -> int:
        return prod(self.mesh[self.axis + 1 :])


def everyone(job: Job) -> Population:
    """Every rank of the job, as it was planned."""
    return Population(job.size, 1, {program.rank: program for program in job.programs})


def grown(job: Job, machine: Machine, ranks: int, axis: str | None = None) -> Population:
    """The job with its data axis `axis` grown to this number of ranks.

    axis: by default "dp", or the only axis of the mesh. Raises DmcError if there is no such axis, if its size would not
    be an integer, and if the replicas do not do the same, so that none can represent the others.
    """
    at, name = _axis(job, axis), f"{ranks} ranks"
    sizes = tuple(job.mesh.values())
    others = job.size // sizes[at]
    if ranks % others or ranks < job.size:
        fact = f"do not fit a job of {job.size} ranks with {others} per replica"
        raise DmcError(name, fact, f"use a multiple of {others}, {job.size} or more")
    if sizes[at] == 1:
        raise DmcError(name, "cannot be simulated from a job without communication", "plan it for at least two ranks")
    result = Grown(ranks, ranks // others, {}, machine, sizes, at, ranks // others)
    for program in job.programs:
        rank = result.grown(program.rank, 0)
        stand_in = result.programs.setdefault(rank, program)
        _check_alike(job, result, stand_in, program)
    return result


def _axis(job: Job, axis: str | None) -> int:
    names = list(job.mesh)
    wanted = axis or ("dp" if "dp" in names or len(names) != 1 else names[0])
    if wanted not in names:
        hint = f"name the axis along which replicas differ: {', '.join(names) or 'this job has no mesh'}"
        raise DmcError(f"axis '{wanted}'", "is not in the mesh", hint)
    return names.index(wanted)


def _check_alike(job: Job, grown: Grown, one: Program, other: Program) -> None:
    """Both do the same at the same time: kernels and movements of the same sizes, in groups of the same shape."""
    if one.lanes != other.lanes or len(one.commands) != len(other.commands):
        raise DmcError(f"ranks {one.rank} and {other.rank}", "have different lanes or numbers of commands", _HINT)
    for index, pair in enumerate(zip(one.commands, other.commands, strict=True)):
        if isinstance(pair[1], Collective):
            _check_grows(grown, pair[1], f"rank {other.rank}, command {index}")
        if _sketch(job, grown, pair[0]) != _sketch(job, grown, pair[1]):
            raise DmcError(f"ranks {one.rank} and {other.rank}", f"differ in command {index}", _HINT)


_HINT = "only a job with equivalent replicas can be simulated for more ranks than planned"


def _sketch(job: Job, grown: Grown, command: Command) -> object:
    """The properties that determine when a command runs and how long it takes."""
    match command:
        case Launch():
            return command.lane, replace(job.kernels[command.kernel], name="")
        case Move():
            return command.lane, command.source.space, command.target.space, command.source.length
        case Collective():
            places = [grown.grown(rank, 0) for rank in command.ranks]
            return command.lane, command.kind, command.dtype, command.count, places
        case _:
            return command


def _check_grows(grown: Grown, command: Collective, where: str) -> None:
    """A group is along the whole axis, or not at all; and there are no pairwise exchanges along it."""
    places = Counter(grown.grown(rank, 0) for rank in command.ranks)
    counts = set(places.values())
    if counts == {1}:
        return
    if counts != {grown.mesh[grown.axis]} or command.kind in PAIRWISE:
        fact = f"a {command.kind} between some replicas does not determine what more replicas would do"
        raise DmcError(where, fact, _HINT)
