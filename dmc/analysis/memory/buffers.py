"""The contents of the memory of `@step` over time, by readable names: for reports, proofs and messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.labels.storages import Named, label_of_op, storage_labels
from dmc.analysis.memory.attributes import stated_offset, stated_scratch_offset
from dmc.analysis.memory.plan import kept_allocations, scratch_of
from dmc.analysis.storage.allocation import Allocation, Sharing
from dmc.analysis.storage.sharing import share
from dmc.analysis.storage.storages import Storage
from dmc.program import DEVICE, Space
from dmc.program.labels import short


@dataclass(frozen=True)
class Held:
    """The contents of some bytes from position `first` to position `last`, inclusive (indices of ops in `@step`).

    label, category: see `dmc.program.Buffer`. space: the memory space. offset, length: in bytes.
    """

    label: str
    category: str
    space: Space
    offset: int
    length: int
    first: int
    last: int


def buffers_of(step: func.FuncOp) -> list[Held]:
    """The contents of memory, at dm-plan-memory's offsets; no two share a byte at one position.

    State, inputs and outputs are always live. Where one value overwrites another in place, the first ends when the
    second begins. A bucket is one buffer, live from its first member on. Raises DmcError if the step has no offsets.
    """
    sharing = share(step)
    names = storage_labels(step, sharing.storages)
    end = len(sharing.storages.ops) - 1
    always = kept_allocations(sharing, step)
    held: list[Held] = []
    for root in sharing.roots():
        own = sharing.allocation(root)
        base = stated_offset(sharing.storages.all[root].value)
        if own.arguments:
            held += _arguments(sharing, own, base, names, end)
        elif root in always:
            held.append(Held(names[root].label, names[root].category, own.space, base, own.bytes, 0, end))
        else:
            held += _successors(sharing, own, base, names)
    return [*held, *_scratch(sharing.storages.ops)]


def _arguments(sharing: Sharing, own: Allocation, base: int, names: list[Named], end: int) -> Iterator[Held]:
    for index in own.arguments:
        offset, size = base + sharing.place(index)[1], sharing.storages.all[index].bytes
        yield Held(names[index].label, names[index].category, own.space, offset, size, 0, end)


def _successors(sharing: Sharing, own: Allocation, base: int, names: list[Named]) -> Iterator[Held]:
    """The storages that fill the whole allocation, in order; the members of a bucket are part of it."""
    every = [index for index in own.members if sharing.storages.all[index].bytes == own.bytes]
    every.sort(key=lambda index: sharing.storages.all[index].first)
    # A bucket is filled by its members' producers: packing in place begins no new buffer.
    whole = [index for i, index in enumerate(every) if i == 0 or not _is_packed(sharing.storages.all[index])]
    begins = [own.first, *(sharing.storages.all[index].first for index in whole[1:])]
    for index, first, behind in zip(whole, begins, [*begins[1:], own.last + 1], strict=True):
        if first < behind:
            yield Held(names[index].label, names[index].category, own.space, base, own.bytes, first, behind - 1)


def _is_packed(storage: Storage) -> bool:
    owner = storage.value.owner
    return not isinstance(owner, ir.Block) and isinstance(owner.opview, dm.PackOp)


def _scratch(ops: Sequence[ir.Operation]) -> Iterator[Held]:
    for position, size in scratch_of(ops).items():
        op = ops[position]
        label, offset = f"scratch of {short(label_of_op(op))}", stated_scratch_offset(op)
        yield Held(label, "scratch", DEVICE, offset, size, position, position)
