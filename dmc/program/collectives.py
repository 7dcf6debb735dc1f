"""The kinds of movements between ranks, each said once: its parts, sizes, costs, and what each member receives.

Formulas of costs: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH"
(2005), and NCCL's `src/graph/tuning.cc`. With n members and B bytes, a ring passes B/n in each of its steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from dmc.program.program import Collective

T = TypeVar("T")
# By reduction, as defined by IEEE 754-2019 and two's complement; a mean is then divided.
_COMBINE: Mapping[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def combined(reduction: str, values: Sequence[Any], wide: Any) -> Any:
    """Arrays, reduced elementwise in order, in the type `wide`; of the type that they have."""
    with np.errstate(all="ignore"):
        total = values[0].astype(wide)
        for value in values[1:]:
            total = _COMBINE[reduction](total, value.astype(wide))
        if reduction == "mean":
            total = total / wide.type(len(values))
        return total.astype(values[0].dtype)


@dataclass(frozen=True)
class Kind:
    """What a movement of n members needs and costs.

    sent: the bytes that a member sends, relative to the larger of its source and target. hops: its sequential steps, of
    a ring or a tree, whichever has fewer if both apply. copied: the bytes that all members together read and write in
    shared memory, likewise. gathers: a target holds the sources of all. scatters: a target is a piece of the source.
    divides: the source has a piece for each member. reduces: values are combined. has_peer: it names a root, or the
    other end. is_pairwise: each rank sends to one at most. is_message: one rank sends to one. has_tree: see hops.
    """

    sent: Callable[[int], float] = lambda n: 1
    hops: Callable[[int], int] = lambda n: 1
    copied: Callable[[int], int] = lambda n: 2 * n
    gathers: bool = False
    scatters: bool = False
    divides: bool = False
    reduces: bool = False
    has_peer: bool = False
    is_pairwise: bool = False
    is_message: bool = False
    has_tree: bool = False


def _others(n: int) -> float:
    return (n - 1) / n


def _ring(n: int) -> int:
    return n - 1


def _tree(n: int) -> int:
    return math.ceil(math.log2(n))


# By name, a `CollectiveKind`.
KINDS: Mapping[str, Kind] = {
    "all_reduce": Kind(lambda n: 2 * (n - 1) / n, lambda n: 2 * min(_ring(n), _tree(n)), reduces=True, has_tree=True),
    "all_gather": Kind(_others, _ring, gathers=True),
    "reduce_scatter": Kind(_others, _ring, lambda n: n + 1, scatters=True, divides=True, reduces=True),
    "all_to_all": Kind(_others, divides=True),
    "broadcast": Kind(hops=_tree, has_peer=True, has_tree=True),
    "permute": Kind(is_pairwise=True),
    "send": Kind(copied=lambda n: 2, has_peer=True, is_pairwise=True, is_message=True),
    "recv": Kind(copied=lambda n: 2, has_peer=True, is_pairwise=True, is_message=True),
}
REDUCING = tuple(name for name, kind in KINDS.items() if kind.reduces)
WITH_PEER = tuple(name for name, kind in KINDS.items() if kind.has_peer)
PAIRWISE = tuple(name for name, kind in KINDS.items() if kind.is_pairwise)
MESSAGES = tuple(name for name, kind in KINDS.items() if kind.is_message)


def is_divisible(kind: str, members: int, count: int) -> bool:
    """Whether a source of `count` elements has a piece for each member, if the kind wants one."""
    return not KINDS[kind].divides or count % members == 0


def sizes(kind: str, members: int, count: int) -> tuple[int | None, int | None]:
    """The elements of source and target of a member, None for one that it does not have. count: those of a source."""
    received = count
    if KINDS[kind].gathers:
        received = count * members
    elif KINDS[kind].scatters:
        received = count // members
    return (None if kind == "recv" else count), (None if kind == "send" else received)


def members_of(rank: int, command: Collective) -> tuple[int, ...]:
    """The ranks that take part in a movement of `rank`: of a message its ends, the sender first."""
    if not KINDS[command.kind].is_message:
        return command.ranks
    peer = command.ranks[command.peer or 0]
    return (rank, peer) if command.kind == "send" else (peer, rank)


class Values(Protocol[T]):
    """Values that ranks hold, as `delivered` combines and divides them."""

    def reduced(self, values: Sequence[T]) -> T:
        """They are combined elementwise, in order."""
        ...

    def piece(self, value: T, index: int, count: int) -> T:
        """A piece of a value that is divided equally."""
        ...

    def joined(self, values: Sequence[T]) -> T:
        """They are concatenated."""
        ...

    def zeros(self, like: T) -> T:
        """Zeros in the place of a value."""
        ...


def delivered(
    kind: str,
    given: Sequence[T],
    values: Values[T],
    root: int = 0,
    pairs: Sequence[tuple[int, int]] = (),
) -> list[T]:
    """What each member receives, in group order, given what each holds. A message has one source and one target."""
    members = len(given)
    match kind:
        case "all_reduce":
            return [values.reduced(given)] * members
        case "all_gather":
            return [values.joined(given)] * members
        case "reduce_scatter":
            reduced = values.reduced(given)
            return [values.piece(reduced, i, members) for i in range(members)]
        case "all_to_all":
            return [values.joined([values.piece(each, i, members) for each in given]) for i in range(members)]
        case "broadcast":
            return [given[root]] * members
        case "permute":
            sources = {target: source for source, target in pairs}
            return [given[sources[i]] if i in sources else values.zeros(given[i]) for i in range(members)]
        case _:
            assert KINDS[kind].is_message, f"{kind} has no semantics"
            return list(given)
