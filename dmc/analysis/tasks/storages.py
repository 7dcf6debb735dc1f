"""Which values of form scheduled share memory: union-find over storages, as operations are read in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dmc._mlir import ir
from dmc.dialect.plan import type_bytes
from dmc.program import aligned


class TaskStorages:
    """The memory of values. A storage is a number; storages found to be the same are joined.

    Views share the storage of their operand, members that of their bucket. Tarjan's union-find (1975), with path
    halving.
    """

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._bytes: list[int] = []
        self._is_fixed: list[bool] = []
        self._buckets: dict[int, list[int]] = {}
        self._of: dict[ir.Value, int] = {}

    def __len__(self) -> int:
        return len(self._parent)

    def make(self, value: ir.Value, type_: ir.Type, *, is_fixed: bool = False) -> int:
        """A new storage for `value`, of the size of `type_`; a fixed one, of an argument or the host, counts as
        zero."""
        self._parent.append(len(self._parent))
        self._bytes.append(0 if is_fixed else aligned_bytes(type_))
        self._is_fixed.append(is_fixed)
        self._of[value] = len(self._parent) - 1
        return self._of[value]

    def share(self, value: ir.Value, other: ir.Value) -> None:
        """Puts `value` into the storage of `other`."""
        self._of[value] = self._of[other]

    def pack(self, bucket: ir.Value, members: Sequence[ir.Value]) -> None:
        """A new storage for a bucket; `join_buckets` decides which members are computed in it."""
        own = [(self.of(member), aligned_bytes(member.type)) for member in members]
        self._buckets[self.make(bucket, bucket.type)] = [
            storage
            for storage, size in own
            if self._bytes[storage] == size and not self._is_fixed[storage] and storage not in self._buckets
        ]

    def join_buckets(self) -> None:
        """Values that are, as a whole, a member of exactly one bucket are computed in the bucket."""
        packed = Counter(own for members in self._buckets.values() for own in members)
        for made, members in self._buckets.items():
            for own in members:
                if packed[own] == 1:
                    self._parent[own] = made

    def join(self, value: ir.Value, other: ir.Value) -> None:
        """Computes `value` in the storage of `other`, which has the same size."""
        root, into = self.of(value), self.of(other)
        if root != into:
            self._parent[root] = into

    def of(self, value: ir.Value) -> int:
        """The storage of a value, as known so far."""
        return self.find(self._of[value])

    def find(self, storage: int) -> int:
        """The storage that a storage has been joined into."""
        while self._parent[storage] != storage:
            self._parent[storage] = self._parent[self._parent[storage]]
            storage = self._parent[storage]
        return storage

    def is_fixed(self, storage: int) -> bool:
        """Whether it is an argument's or the host's."""
        return self._is_fixed[self.find(storage)]

    def bytes(self, storage: int) -> int:
        """The size of a storage, including joined ones."""
        return self._bytes[self.find(storage)]


def aligned_bytes(type_: ir.Type) -> int:
    """The bytes of a tensor in an arena, where everything is aligned."""
    return aligned(type_bytes(ir.RankedTensorType(type_)))
