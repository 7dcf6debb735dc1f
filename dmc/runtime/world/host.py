"""Collectives between CPU processes, through the key-value store: slow, for tests, with the interface of NCCL.

Reductions are in group order, with narrow types in f32, as in the rehearsal: results are bitwise the same.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmc.dtypes import NARROW, dtype_of
from dmc.errors import DmcError
from dmc.program.collectives import combined
from dmc.runtime.world.store import Store

Array = NDArray[Any]


class HostCommunicators:
    """Creates communicators between processes on CPUs."""

    def __init__(self, store: Store, timeout_s: float) -> None:
        self._store, self._timeout_s = store, timeout_s
        self._made: Counter[tuple[int, ...]] = Counter()

    def make(self, group: tuple[int, ...]) -> HostCommunicator:
        """See `Communicators`."""
        name = f"host/{'-'.join(map(str, group))}/{self._made[group]}"
        self._made[group] += 1
        return HostCommunicator(self._store, name, group, self._timeout_s)


class HostCommunicator:
    """See `Communicator`. Addresses are in the memory of this process; a call returns when its work is done."""

    def __init__(self, store: Store, name: str, group: tuple[int, ...], timeout_s: float) -> None:
        self._store, self._name, self._group, self._timeout_s = store, name, group, timeout_s
        self._messages: Counter[tuple[int, int]] = Counter()
        self._is_aborted = False

    def all_reduce(self, source: int, target: int, count: int, dtype: str, kind: str, stream: Any) -> None:
        """See `Communicator`."""
        _memory(target, count, dtype)[:] = _reduced(self._gathered(source, count, dtype), kind, dtype)

    def reduce_scatter(self, source: int, target: int, count: int, dtype: str, kind: str, stream: Any) -> None:
        """See `Communicator`."""
        pieces = [self._piece(each, count) for each in self._gathered(source, count * len(self._group), dtype)]
        _memory(target, count, dtype)[:] = _reduced(pieces, kind, dtype)

    def all_gather(self, source: int, target: int, count: int, dtype: str, stream: Any) -> None:
        """See `Communicator`."""
        _memory(target, count * len(self._group), dtype)[:] = np.concatenate(self._gathered(source, count, dtype))

    def broadcast(self, source: int, target: int, count: int, dtype: str, root: int, stream: Any) -> None:
        """See `Communicator`."""
        _memory(target, count, dtype)[:] = self._gathered(source, count, dtype)[root]

    def all_to_all(self, source: int, target: int, count: int, dtype: str, stream: Any) -> None:
        """See `Communicator`."""
        pieces = [self._piece(each, count) for each in self._gathered(source, count * len(self._group), dtype)]
        _memory(target, count * len(self._group), dtype)[:] = np.concatenate(pieces)

    def send(self, source: int, count: int, dtype: str, peer: int, stream: Any) -> None:
        """See `Communicator`."""
        self._store.set(self._message(self._place, peer), _memory(source, count, dtype).tobytes())

    def recv(self, target: int, count: int, dtype: str, peer: int, stream: Any) -> None:
        """See `Communicator`."""
        key = self._message(peer, self._place)
        _memory(target, count, dtype)[:] = _typed(self._store.get(key, self._timeout_s), dtype)
        self._store.delete(key)

    def group(self) -> contextlib.AbstractContextManager[None]:
        """See `Communicator`; sends never wait."""
        return contextlib.nullcontext()

    def failed(self) -> str | None:
        """See `Communicator`; calls raise when they fail."""
        return None

    def abort(self) -> None:
        """See `Communicator`."""
        self._is_aborted = True

    @property
    def _place(self) -> int:
        return self._group.index(self._store.world.rank)

    def _gathered(self, source: int, count: int, dtype: str) -> list[Array]:
        """The values of all members, in group order."""
        if self._is_aborted:
            raise DmcError(self._name, "was aborted")
        mine = _memory(source, count, dtype).tobytes()
        given = self._store.exchange(self._name, mine, self._timeout_s, self._group)
        return [_typed(each, dtype) for each in given]

    def _piece(self, whole: Array, count: int) -> Array:
        return whole[self._place * count : (self._place + 1) * count]

    def _message(self, source: int, target: int) -> str:
        self._messages[source, target] += 1
        return f"{self._name}/{source}-{target}/{self._messages[source, target]}"


class _Memory:
    """Memory of this process, as a numpy array."""

    def __init__(self, address: int, length: int) -> None:
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (length,), "typestr": "|u1"}


def _memory(address: int, count: int, dtype: str) -> Array:
    kind = dtype_of(dtype).numpy
    return np.asarray(_Memory(address, count * kind.itemsize)).view(kind)


def _typed(data: bytes, dtype: str) -> Array:
    return np.frombuffer(data, dtype_of(dtype).numpy)


def _reduced(values: list[Array], kind: str, dtype: str) -> Array:
    return combined(kind, values, np.dtype(np.float32) if dtype in NARROW else values[0].dtype)
