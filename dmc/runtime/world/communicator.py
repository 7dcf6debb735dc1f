"""The interface of transports for movements between ranks: NCCL on GPUs, or between CPU processes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol


class Communicator(Protocol):
    """One group of ranks, each identified by its place in it. Every member makes the same calls in the same order.

    Addresses are in memory that the device can access; counts are in elements of `dtype` (MLIR's name); `stream` is the
    device's queue for the work. A call returns when its work is queued, not when it is done.
    """

    def all_reduce(self, source: int, target: int, count: int, dtype: str, kind: str, stream: Any) -> None:
        """All-reduces the values of all members (`dmc.program.program.Reduction`); `target` may be `source`."""

    def reduce_scatter(self, source: int, target: int, count: int, dtype: str, kind: str, stream: Any) -> None:
        """Reduce-scatters: this member's piece, of `count` elements, of the reduced values."""

    def all_gather(self, source: int, target: int, count: int, dtype: str, stream: Any) -> None:
        """All-gathers the `count` elements of each member, in member order."""

    def broadcast(self, source: int, target: int, count: int, dtype: str, root: int, stream: Any) -> None:
        """Broadcasts the source of the member `root`."""

    def all_to_all(self, source: int, target: int, count: int, dtype: str, stream: Any) -> None:
        """All-to-all: piece j of the source, of `count` elements, goes to member j, as this member's piece."""

    def send(self, source: int, count: int, dtype: str, peer: int, stream: Any) -> None:
        """Sends to a member, which receives it."""

    def recv(self, target: int, count: int, dtype: str, peer: int, stream: Any) -> None:
        """Receives from a member, which sends it."""

    def group(self) -> AbstractContextManager[None]:
        """Groups the sends and receives inside: none waits for another."""
        ...

    def failed(self) -> str | None:
        """A failure of queued work, if known: it is reported only here."""

    def abort(self) -> None:
        """Aborts queued work, so that nothing waits for a rank that is gone; nothing more may be queued."""


class Communicators(Protocol):
    """Creates communicators."""

    def make(self, group: tuple[int, ...]) -> Communicator:
        """The communicator of these ranks, in group order; all of them create it, and wait for each other.

        Ranks that share several groups create them in the same order. Raises DmcError if it cannot be created.
        """
        ...
