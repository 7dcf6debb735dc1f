"""Movements between ranks: the members, and what each receives. Elements are flat, as in the arenas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dmc.dtypes import Array, numpy_type
from dmc.errors import DmcError
from dmc.program import Collective, collectives
from dmc.program.collectives import MESSAGES, members_of

# A movement: its number, its channel, and its members; for a message the sender and the receiver.
Movement: TypeAlias = tuple[int, str, tuple[int, ...]]


def movement_of(rank: int, command: Collective) -> Movement:
    """The movement of a rank's command. Raises DmcError if that rank is not a member."""
    ranks = members_of(rank, command)
    if rank not in ranks or len(set(ranks)) != len(ranks):
        raise DmcError(told(command), f"rank {rank} takes part in it, but its members are ranks {list(ranks)}")
    return command.instance, command.channel, ranks


def check_alike(parts: Mapping[int, Collective]) -> None:
    """Raises DmcError if members of a movement disagree."""
    first, *others = ((rank, _common(part)) for rank, part in sorted(parts.items()))
    for rank, common in others:
        if common != first[1]:
            part = parts[rank]
            raise DmcError(told(part), f"ranks {first[0]} and {rank} do not agree: {first[1]} and {common}")


def deliver(command: Collective, sources: Sequence[Array]) -> list[Array]:
    """What each member receives, in group order, from what all of them hold. A message has one source and target.

    Raises DmcError for elements or sizes that cannot be combined or split this way.
    """
    arrays = _Arrays(command)
    return collectives.delivered(command.kind, sources, arrays, command.peer or 0, command.pairs)


def told(command: Collective) -> str:
    """`all_reduce #3`."""
    return f"{command.kind} #{command.instance}"


def _common(part: Collective) -> tuple[object, ...]:
    """The properties common to all members."""
    kind, peer = ("message", None) if part.kind in MESSAGES else (part.kind, part.peer)
    return kind, part.dtype, part.count, part.reduction, part.accumulate, peer, part.pairs


@dataclass(frozen=True)
class _Arrays:
    """Flat arrays, as a command combines and divides them."""

    command: Collective

    def reduced(self, values: Sequence[Array]) -> Array:
        return _reduce(self.command, values)

    def piece(self, value: Array, index: int, count: int) -> Array:
        if len(value) % count:
            raise DmcError(told(self.command), f"{len(value)} elements are not divisible by {count} members")
        return np.split(value, count)[index]

    def joined(self, values: Sequence[Array]) -> Array:
        return np.concatenate(values)

    def zeros(self, like: Array) -> Array:
        return np.zeros_like(like)


def _reduce(command: Collective, sources: Sequence[Array]) -> Array:
    """The reduction, in group order, in the type `accumulate`."""
    if command.reduction is None or command.accumulate is None or sources[0].dtype == np.bool_:
        fact = f"cannot combine elements of {command.dtype} by {command.reduction} in {command.accumulate}"
        raise DmcError(told(command), fact)
    return collectives.combined(command.reduction, sources, numpy_type(command.accumulate))
