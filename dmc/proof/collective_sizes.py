"""V3 for movements between ranks: operands and results of each kind, and communicators."""

from __future__ import annotations

from collections.abc import Mapping

from dmc.errors import ProofError
from dmc.mesh import Mesh
from dmc.program import Channel, Collective, Job, Program, Range
from dmc.program.collectives import KINDS, MESSAGES, REDUCING, WITH_PEER, is_divisible, sizes
from dmc.proof.extents import bytes_of, check_unique

# By channel, the communicators that one rank is in: the members of each in order.
Communicators = Mapping[str, tuple[tuple[int, ...], ...]]


def check_channels(job: Job) -> None:
    """Raises ProofError for a channel along an axis, or of a rank, that the mesh does not have."""
    check_unique("the job", "channel", (channel.name for channel in job.channels))
    for channel in job.channels:
        place = f"channel {channel.name}"
        if bool(channel.axes) == bool(channel.groups):
            raise ProofError("V3", place, "must have either axes of the mesh or groups of ranks, not both")
        for axis in channel.axes:
            if axis not in job.mesh:
                raise ProofError("V3", place, f"is along {axis}, which is not an axis of the mesh {job.mesh}")
        if len({*channel.axes}) < len(channel.axes):
            raise ProofError("V3", place, f"is along an axis twice: {', '.join(channel.axes)}")
        for group in channel.groups:
            if not group or len(set(group)) < len(group) or not set(group) <= set(range(job.size)):
                raise ProofError("V3", place, f"its group {group} does not consist of distinct ranks of the {job.size}")
        if len(set(map(frozenset, channel.groups))) < len(channel.groups):
            raise ProofError("V3", place, "has two groups of the same ranks", "give each its own channel")


def communicators(job: Job, mesh: Mesh, rank: int) -> Communicators:
    """The communicators of `rank`."""
    return {channel.name: _groups(mesh, channel, rank) for channel in job.channels}


def check_collective(known: Communicators, program: Program, place: str, command: Collective) -> None:
    """Raises ProofError where one rank's part in a movement contradicts its kind, its lane or the mesh."""
    if command.kind not in KINDS:
        raise ProofError("V3", place, f"has an unknown kind; use one of {', '.join(sorted(KINDS))}")
    _check_communicator(known, program, place, command)
    _check_sizes(place, command)
    combines = (command.reduction is not None, command.accumulate is not None)
    if combines != ((True, True) if command.kind in REDUCING else (False, False)):
        raise ProofError("V3", place, f"exactly {' and '.join(REDUCING)} have a reduction and an accumulation type")
    if (command.peer is not None) != (command.kind in WITH_PEER):
        raise ProofError("V3", place, f"exactly {', '.join(WITH_PEER)} have a peer; it has {command.peer}")
    if command.peer is not None and not 0 <= command.peer < len(command.ranks):
        raise ProofError("V3", place, f"its peer {command.peer} is not a member of {command.ranks}")
    check_message(program.rank, place, command)
    _check_pairs(place, command)


def check_message(rank: int, place: str, command: Collective) -> None:
    """Raises ProofError for a message of a rank to itself."""
    if command.kind in MESSAGES and command.ranks[command.peer or 0] == rank:
        raise ProofError("V3", place, f"is a message of rank {rank} to itself")


def _check_communicator(known: Communicators, program: Program, place: str, command: Collective) -> None:
    lane = program.lanes[command.lane]
    if lane.channel != command.channel:
        raise ProofError("V3", place, f"has channel {command.channel}, but its lane has {lane.channel}")
    members = known[command.channel]
    if command.ranks not in members:
        has = " or ".join(map(str, members)) or "no group of this rank"
        fact = f"names ranks {command.ranks}; its communicator {command.channel} has, in this order, {has}"
        raise ProofError("V3", place, fact)


def _groups(mesh: Mesh, channel: Channel, rank: int) -> tuple[tuple[int, ...], ...]:
    if channel.axes:
        return (mesh.group(rank, channel.axes),)
    return tuple(group for group in channel.groups if rank in group)


def _check_sizes(place: str, command: Collective) -> None:
    members, count = len(command.ranks), command.count
    if not is_divisible(command.kind, members, count):
        raise ProofError("V3", place, f"{count} elements are not divisible by {members} members")
    source, target = command.source, command.target
    element = bytes_of(place, command.dtype, ())
    elements = sizes(command.kind, members, count)
    for name, given, wanted in zip(("source", "target"), (source, target), elements, strict=True):
        _check_bytes(place, name, given, None if wanted is None else wanted * element)


def _check_bytes(place: str, name: str, given: Range | None, wanted: int | None) -> None:
    has = None if given is None else given.length
    if has != wanted:
        raise ProofError("V3", place, f"its {name} has {has} bytes; its kind, count and type require {wanted}")


def _check_pairs(place: str, command: Collective) -> None:
    if command.kind != "permute":
        if command.pairs:
            raise ProofError("V3", place, "has pairs, which only a permute has")
        return
    for end, name in ((0, "source"), (1, "target")):
        indices = [pair[end] for pair in command.pairs]
        if len(set(indices)) != len(indices) or not all(0 <= index < len(command.ranks) for index in indices):
            raise ProofError("V3", place, f"its {name}s {indices} are not distinct members of {command.ranks}")
