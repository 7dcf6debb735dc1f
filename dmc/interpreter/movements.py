"""Movements between ranks: the members, and what each receives. Elements are flat, as in the arenas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dmc.errors import DmcError
from dmc.interpreter.dtypes import Array, numpy_type
from dmc.program import Collective

# A movement: its number, its channel, and its members; for a message the sender and the receiver.
Movement: TypeAlias = tuple[int, str, tuple[int, ...]]
MESSAGES = ("send", "recv")
# As defined by IEEE 754-2019 and two's complement.
_COMBINE = {"sum": np.add, "mean": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def movement_of(rank: int, command: Collective) -> Movement:
    """The movement of a rank's command. Raises DmcError if that rank is not a member."""
    ranks = command.ranks
    if command.kind in MESSAGES:
        ends = (rank, ranks[command.peer or 0])
        ranks = ends if command.kind == "send" else ends[::-1]
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
    if command.kind in MESSAGES:
        return list(sources)
    return _RULES[command.kind](command, sources)


def told(command: Collective) -> str:
    """`all_reduce #3`."""
    return f"{command.kind} #{command.instance}"


def _common(part: Collective) -> tuple[object, ...]:
    """The properties common to all members."""
    kind, peer = ("message", None) if part.kind in MESSAGES else (part.kind, part.peer)
    return kind, part.dtype, part.count, part.reduction, part.accumulate, peer, part.pairs


def _all_gather(_: Collective, sources: Sequence[Array]) -> list[Array]:
    return [np.concatenate(sources)] * len(sources)


def _all_reduce(command: Collective, sources: Sequence[Array]) -> list[Array]:
    return [_reduce(command, sources)] * len(sources)


def _reduce_scatter(command: Collective, sources: Sequence[Array]) -> list[Array]:
    return _pieces(command, _reduce(command, sources), len(sources))


def _all_to_all(command: Collective, sources: Sequence[Array]) -> list[Array]:
    pieces = [_pieces(command, source, len(sources)) for source in sources]
    return [np.concatenate(column) for column in zip(*pieces, strict=True)]


def _broadcast(command: Collective, sources: Sequence[Array]) -> list[Array]:
    return [sources[command.peer or 0]] * len(sources)


def _permute(command: Collective, sources: Sequence[Array]) -> list[Array]:
    source_of = {target: source for source, target in command.pairs}
    places = range(len(sources))
    return [sources[source_of[i]] if i in source_of else np.zeros_like(sources[i]) for i in places]


_RULES: dict[str, Callable[[Collective, Sequence[Array]], list[Array]]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "permute": _permute,
    "reduce_scatter": _reduce_scatter,
}


def _pieces(command: Collective, whole: Array, count: int) -> list[Array]:
    if len(whole) % count:
        raise DmcError(told(command), f"{len(whole)} elements are not divisible by {count} members")
    return np.split(whole, count)


def _reduce(command: Collective, sources: Sequence[Array]) -> Array:
    """The reduction, in group order, in the type `accumulate`."""
    if command.reduction is None or command.accumulate is None or sources[0].dtype == np.bool_:
        fact = f"cannot combine elements of {command.dtype} by {command.reduction} in {command.accumulate}"
        raise DmcError(told(command), fact)
    wide, combine = numpy_type(command.accumulate), _COMBINE[command.reduction]
    with np.errstate(all="ignore"):
        total = sources[0].astype(wide)
        for source in sources[1:]:
            total = combine(total, source.astype(wide))
        if command.reduction == "mean":
            total = total / wide.type(len(sources))
        return total.astype(sources[0].dtype)
