"""Storages of `@step` that share memory: allocations, sets of storages with fixed offsets between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.storage.pointwise import Pairs
from dmc.analysis.storage.storages import Read, Storages, value_bytes
from dmc.program import Space

NEVER = 1 << 62


@dataclass
class Allocation:
    """Storages that share memory, and their combined accesses.

    members: indices of storages. arguments: those that are arguments of the step. first: the position of the first
    write; never for arguments. last_write: the position of the last write. reads: the last two to end. fixed: the
    offset in its arena, where that is decided already.
    """

    space: Space
    bytes: int
    members: list[int]
    arguments: tuple[int, ...]
    first: int
    last_write: int
    reads: tuple[Read, ...]
    fixed: int | None = None

    @property
    def last(self) -> int:
        """The last position at which it is used."""
        return max(self.last_write, *(read.last for read in self.reads), -1)

    def last_read_but(self, position: int) -> int:
        """The end of the last read that is not by the op at `position`; -1 if there is none."""
        return max((read.last for read in self.reads if read.first != position), default=-1)


@dataclass
class Sharing:
    """The storages of a step and their allocations: a union-find structure with offsets.

    copied: by the position of a `dm.pack`, the operands that are elsewhere and must be copied into the bucket.
    """

    storages: Storages
    copied: dict[int, list[int]] = field(default_factory=dict)
    _parent: list[tuple[int, int]] = field(default_factory=list)
    _allocations: list[Allocation] = field(default_factory=list)

    def __post_init__(self) -> None:
        for index, storage in enumerate(self.storages.all):
            is_argument = isinstance(storage.value.owner, ir.Block)
            self._parent.append((index, 0))
            first, arguments = (NEVER, (index,)) if is_argument else (storage.first, ())
            reads = _last_two(storage.reads)
            made = Allocation(storage.space, storage.bytes, [index], arguments, first, storage.last, reads)
            made.fixed = storage.fixed
            self._allocations.append(made)

    def place(self, storage: int) -> tuple[int, int]:
        """The allocation of a storage, as an index, and the storage's offset in it."""
        path: list[int] = []
        while self._parent[storage][0] != storage:
            path.append(storage)
            storage = self._parent[storage][0]
        root, offset = storage, 0
        for each in reversed(path):
            offset += self._parent[each][1]
            self._parent[each] = (root, offset)
        return root, offset

    def place_of(self, value: ir.Value) -> tuple[int, int]:
        """The allocation of a value, as an index, and the value's offset in it."""
        place = self.storages.places[value]
        root, offset = self.place(place.storage)
        return root, offset + place.offset

    def allocation(self, root: int) -> Allocation:
        """The allocation that `place` names."""
        return self._allocations[root]

    def allocation_of(self, value: ir.Value) -> Allocation:
        """The allocation that contains a value."""
        return self._allocations[self.place_of(value)[0]]

    def roots(self) -> Iterator[int]:
        """All allocations."""
        return (index for index, (parent, _) in enumerate(self._parent) if parent == index)

    def is_whole(self, value: ir.Value) -> bool:
        """Whether the value fills its allocation."""
        root, offset = self.place_of(value)
        return offset == 0 and self._allocations[root].bytes == value_bytes(value)

    def may_write(
        self, kernel: ir.Operation, results: Iterable[int], pairs: Pairs, place: tuple[int, int], size: int
    ) -> bool:
        """Whether a kernel may write results to `size` bytes of a place, whatever it reads there.

        results: as indices. pairs: the operands and results that may share memory.
        """
        root, offset = place
        for index, operand in enumerate(kernel.operands):
            other, begin = self.place_of(operand)
            length = value_bytes(operand)
            if other != root or begin >= offset + size or offset >= begin + length:
                continue
            if (begin, length) != (offset, size) or any((index, result) not in pairs for result in results):
                return False
        return True

    def fits(self, outer: int, inner: Iterable[tuple[int, int]]) -> bool:
        """Whether allocations may be placed into `outer`, each at its offset, given what is fixed."""
        parts = [(outer, 0), *inner]
        placed = [(self._allocations[index].fixed, offset) for index, offset in parts]
        bases = {fixed - offset for fixed, offset in placed if fixed is not None}
        if len(bases) != 1:
            return not bases
        (base,) = bases
        end, roots = base + self._allocations[outer].bytes, {root for root, _ in parts}
        others = (self._allocations[root] for root in self.roots() if root not in roots)
        near = (own for own in others if own.space == self._allocations[outer].space)
        taken = ((own.fixed, own.fixed + own.bytes) for own in near if own.fixed is not None)
        return base >= 0 and all(last <= base or first >= end for first, last in taken)

    def join(self, outer: int, inner: int, offset: int) -> None:
        """Places the allocation `inner` into `outer`, at an offset in bytes."""
        one, other = self._allocations[outer], self._allocations[inner]
        assert one.space == other.space and 0 <= offset <= one.bytes - other.bytes
        self._parent[inner] = (outer, offset)
        if one.fixed is None and other.fixed is not None:
            one.fixed = other.fixed - offset
        one.members += other.members
        one.arguments += other.arguments
        one.first, one.last_write = min(one.first, other.first), max(one.last_write, other.last_write)
        one.reads = _last_two([*one.reads, *other.reads])


def _last_two(reads: Iterable[Read]) -> tuple[Read, ...]:
    """Of the reads by different ops, the two that end last."""
    by_op: dict[int, Read] = {}
    for read in reads:
        if read.first not in by_op or by_op[read.first].last < read.last:
            by_op[read.first] = read
    return tuple(sorted(by_op.values(), key=lambda read: read.last)[-2:])
