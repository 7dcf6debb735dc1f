"""NCCL communicators, through CuPy, which only machines with a GPU need.

NCCL combines values along a ring or a tree, in the element type: after each member's value the sum is rounded to it.
With two members that is one addition, bitwise equal to the rehearsal on a CPU. With n members the order of the
additions is NCCL's, the same in every run on the same machines, and the result differs from the rehearsal's by at most
(n - 1) roundings of the partial sums. A mean is the sum of values that were multiplied by 1 / n.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from dmc.distribution import install
from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.program.sizes import element_bytes
from dmc.runtime.world.store import Store

_KINDS = {"sum": "SUM", "mean": "AVG", "prod": "PROD", "min": "MIN", "max": "MAX"}


class NcclCommunicators:
    """Creates communicators on this process's device; ranks exchange their ids through the store."""

    def __init__(self, store: Store) -> None:
        """Raises DmcError if CuPy or NCCL is not installed."""
        self._nccl = _library()
        self._store = store
        self._made: Counter[tuple[int, ...]] = Counter()

    def make(self, group: tuple[int, ...]) -> NcclCommunicator:
        """See `Communicators`."""
        key = f"nccl/{'-'.join(map(str, group))}/{self._made[group]}"
        self._made[group] += 1
        rank = self._store.world.rank
        if rank == group[0]:
            self._store.set(key, bytes(self._nccl.get_unique_id()))
        unique = self._store.get(key)
        try:
            return NcclCommunicator(self._nccl, self._nccl.NcclCommunicator(len(group), unique, group.index(rank)))
        except self._nccl.NcclError as error:
            hint = "NCCL_DEBUG=INFO shows details; each rank of a host needs its own GPU"
            raise DmcError(
                f"rank {rank}", f"cannot reach the ranks {list(group)} through NCCL ({error})", hint
            ) from error


class NcclCommunicator:
    """See `Communicator`. `stream` is the address of a CUDA stream."""

    def __init__(self, nccl: Any, communicator: Any) -> None:
        self._nccl, self._communicator = nccl, communicator

    def all_reduce(self, source: int, target: int, count: int, dtype: str, kind: str, stream: int) -> None:
        """See `Communicator`."""
        how = self._type(dtype), self._kind(kind)
        self._ask(lambda: self._communicator.allReduce(source, target, count, *how, stream))

    def reduce_scatter(self, source: int, target: int, count: int, dtype: str, kind: str, stream: int) -> None:
        """See `Communicator`."""
        how = self._type(dtype), self._kind(kind)
        self._ask(lambda: self._communicator.reduceScatter(source, target, count, *how, stream))

    def all_gather(self, source: int, target: int, count: int, dtype: str, stream: int) -> None:
        """See `Communicator`."""
        self._ask(lambda: self._communicator.allGather(source, target, count, self._type(dtype), stream))

    def broadcast(self, source: int, target: int, count: int, dtype: str, root: int, stream: int) -> None:
        """See `Communicator`."""
        self._ask(lambda: self._communicator.broadcast(source, target, count, self._type(dtype), root, stream))

    def all_to_all(self, source: int, target: int, count: int, dtype: str, stream: int) -> None:
        """See `Communicator`."""
        size = count * element_bytes(dtype)
        with self.group():
            for peer in range(self._communicator.size()):
                self.send(source + peer * size, count, dtype, peer, stream)
                self.recv(target + peer * size, count, dtype, peer, stream)

    def send(self, source: int, count: int, dtype: str, peer: int, stream: int) -> None:
        """See `Communicator`."""
        self._ask(lambda: self._communicator.send(source, count, self._type(dtype), peer, stream))

    def recv(self, target: int, count: int, dtype: str, peer: int, stream: int) -> None:
        """See `Communicator`."""
        self._ask(lambda: self._communicator.recv(target, count, self._type(dtype), peer, stream))

    @contextmanager
    def group(self) -> Generator[None]:
        """See `Communicator`."""
        self._ask(self._nccl.groupStart)
        try:
            yield
        finally:
            self._ask(self._nccl.groupEnd)

    def failed(self) -> str | None:
        """See `Communicator`."""
        try:
            self._communicator.check_async_error()
        except self._nccl.NcclError as error:
            return str(error)
        return None

    def abort(self) -> None:
        """See `Communicator`."""
        self._communicator.abort()

    def _type(self, dtype: str) -> int:
        if not (name := dtype_of(dtype).nccl):
            raise DmcError("NCCL", f"has no elements of type {dtype}", hint="convert them first")
        return getattr(self._nccl, f"NCCL_{name}")

    def _kind(self, kind: str) -> int:
        return getattr(self._nccl, f"NCCL_{_KINDS[kind]}")

    def _ask(self, ask: Callable[[], None]) -> None:
        try:
            ask()
        except self._nccl.NcclError as error:
            raise DmcError("NCCL", f"fails ({error})", hint="NCCL_DEBUG=INFO says more") from error


def _library() -> Any:
    try:
        nccl: Any = importlib.import_module("cupy.cuda.nccl")
    except ImportError as error:
        fact = f"requires the package {error.name!r}, which is not installed"
        raise DmcError("more than one GPU", fact, hint=install("cuda")) from error
    if not nccl.available:
        raise DmcError("more than one GPU", "requires NCCL, which is not installed", hint=install("cuda"))
    return nccl
