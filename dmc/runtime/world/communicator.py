"""What movements between ranks ask of whatever carries them: NCCL on GPUs, or a transport between CPU processes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol


class Communicator(Protocol):
    """One group of ranks, each known by its place in it. Every member makes the same calls in the same order.

    Addresses are of memory that the device reaches; counts are in elements of `dtype` (MLIR's name); `stream` is where
    the work is queued, as the device knows it. A call returns when its work is queued, not when it is done.
    """

    def all_reduce(self, source: int, target: int, count: int, dtype: str, kind: str, stream: Any) -> None:
        """The values of all members, combined (`dmc.program.program.Reduction`); `target` may be `source`."""

    def reduce_scatter(self, source: int, target: int, count: int, dtype: str, kind: str, stream: Any) -> None:
        """Of the combined values, in as many pieces as there are members, of `count` each, this member's piece."""

    def all_gather(self, source: int, target: int, count: int, dtype: str, stream: Any) -> None:
        """The `count` elements of each member, one member behind the other."""

    def broadcast(self, source: int, target: int, count: int, dtype: str, root: int, stream: Any) -> None:
        """The source of the member `root`, at every member."""

    def all_to_all(self, source: int, target: int, count: int, dtype: str, stream: Any) -> None:
        """Piece j of the source, of `count` elements, goes to member j, where it is the piece of this member."""

    def send(self, source: int, count: int, dtype: str, peer: int, stream: Any) -> None:
        """To a member, which receives it."""

    def recv(self, target: int, count: int, dtype: str, peer: int, stream: Any) -> None:
        """From a member, which sends it."""

    def group(self) -> AbstractContextManager[None]:
        """Sends and receives inside belong together: none waits for another."""
        ...

    def failed(self) -> str | None:
        """What has gone wrong since, as far as it is known: of queued work nobody else says so."""

    def abort(self) -> None:
        """Gives up what is queued, so that nothing waits for a rank that is gone; for nothing more to be queued."""


class Communicators(Protocol):
    """Makes communicators."""

    def make(self, group: tuple[int, ...]) -> Communicator:
        """The communicator of these ranks, in the order of the group; all of them make it, and wait for each other.

        Ranks that share several groups make them in one order. Raises DmcError where it cannot be made.
        """
        ...
